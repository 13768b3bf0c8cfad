"""The section `mcp` of the YAML: servers of the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints, model_validator

from clawbot.config_sections import FolderPath, HttpUrlText, Seconds, Section, Text

McpServerName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]{0,19}$")]


class McpServerConfig(Section):
    """A server of the Model Context Protocol, whose tools the agent has."""

    command: tuple[Text, ...] = ()
    """The program to start, with its arguments; it speaks over its standard input and output."""
    env: dict[str, SecretStr] = Field(default={})
    """What it finds in its environment, besides HOME, LOGNAME, PATH, SHELL, TERM and USER."""
    dir: FolderPath | None = None
    """The directory it is started in; left out, the daemon's own."""
    url: HttpUrlText | None = None
    """The address of a server that runs elsewhere (streamable HTTP)."""
    headers: dict[str, SecretStr] = Field(default={})
    """What is sent to it with each request, such as Authorization."""
    tools: tuple[Text, ...] = ("*",)
    """The tools that are taken over, by the server's names; * stands for any letters."""
    sessions: tuple[Text, ...] = ("*",)
    """The conversations that have them, by their keys; a chat's key is for all in that chat."""
    connect_timeout_s: Seconds = 20
    """How long connecting may take."""
    call_timeout_s: Seconds = 120
    """How long a call may take."""
    result_chars: int = Field(default=100_000, ge=1000)
    """How much of a result is taken; the middle of a longer one is left out."""

    @model_validator(mode="after")
    def _is_reached_one_way(self) -> McpServerConfig:
        if bool(self.command) == (self.url is not None):
            raise ValueError("want either command or url")
        return self
