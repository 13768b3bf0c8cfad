"""The sections `tools` and `project` of the YAML: what the agent can do, and what it is told of the
directories that it works in.
"""

from __future__ import annotations

from typing import Annotated, Literal

import regex  # type: ignore[import-untyped]  # ships no types
from pydantic import AfterValidator, Field

from clawbot.config_sections import FolderPath, Seconds, Section, Text


def _expression(pattern: str) -> str:
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


class ToolRule(Section):
    """What becomes of some calls of tools."""

    do: Literal["allow", "ask", "deny"]
    """allow = they are made; ask = the people of the chat decide; deny = they are not made."""
    tool: Text = "*"
    """The tools that it is about, by name; * stands for any letters."""
    arguments: Annotated[str, AfterValidator(_expression)] = ""
    """A regular expression that is searched for in the command, the path, or all arguments."""
    channel: Text = "*"
    """The channels that it is about; web and terminal are such."""
    sender: Literal["anyone", "owner", "other"] = "anyone"
    """Whose messages are answered: owners' alone (owner), or also somebody else's (other)."""
    reason: str = ""
    """What people who are asked, or the agent that is refused, are told."""


class ToolsConfig(Section):
    """What the agent can do."""

    offered: tuple[Text, ...] = ("*",)
    """The tools that sessions have, by name; * stands for any letters."""
    rules: tuple[ToolRule, ...] = ()
    """What becomes of their calls; the first rule that fits counts, what fits none is made."""
    ask_dangerous: bool = True
    """Whether people are asked, where no rule fits, about commands that destroy or publish."""
    at_once: int = Field(default=8, ge=1, le=64)
    """How many calls of one step may run side by side; those that change something never do."""
    sandbox: Literal["bubblewrap", "none"] = "bubblewrap"
    """Where shell commands run. none = as the daemon's user, who can read all its secrets; then
    only owners may have them run."""
    network: bool = False
    """Whether shell commands reach the network, and what listens on this machine."""
    read_only_dirs: tuple[FolderPath, ...] = ()
    """Further directories that shell commands may read."""
    command_timeout_s: Seconds = 600
    """How long a shell command may take at most."""
    background_s: Seconds = 3600
    """How long one may run in the background."""
    background_at_once: int = Field(default=4, ge=0)
    """How many of a session may do so at the same time; 0 = none."""
    command_processes: int = Field(default=256, ge=8)
    """How many processes a shell command may have."""
    command_memory_bytes: int = Field(default=4_294_967_296, ge=16_777_216)
    """How much memory each of them may have."""
    command_file_bytes: int = Field(default=1_073_741_824, ge=1)
    """How large a file may become that they write."""
    fetch_timeout_s: Seconds = 30
    """How long web_fetch may take for a page."""
    fetch_bytes: int = Field(default=5_242_880, ge=1024)
    """How much of a page it loads."""
    fetch_private_hosts: tuple[Text, ...] = ()
    """Hosts that it may reach although they are not of the public internet."""


class ProjectConfig(Section):
    """What stands in each request of the AGENTS.md files and skills of a work directory."""

    agents_bytes: int = Field(default=32_768, ge=0)
    """How much of AGENTS.md files; all of them can be read as files."""
    skills: int = Field(default=50, ge=0)
    """How many skills are named."""
