"""The section `tools` of the YAML: what the agent can do, and within which bounds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clawbot.config_sections import FolderPath, Seconds, Section, Text


class ToolsConfig(Section):
    """What the agent can do."""

    offered: tuple[Text, ...] = ("*",)
    """The tools that sessions have, by name; * stands for any letters."""
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
