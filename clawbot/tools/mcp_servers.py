"""The MCP servers of the config, and their tools as tools of ours, named SERVER__TOOL."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, ClassVar, cast

import structlog
from mcp import types as wire
from pydantic import BaseModel, ConfigDict

from clawbot.config_mcp import McpServerConfig
from clawbot.ports import Clock, Tool, ToolContext
from clawbot.text import clean
from clawbot.tools.mcp_connection import McpConnection

log = structlog.get_logger(__name__)

NAME_CHARS = 64
DESCRIPTION_CHARS = 4_000
SCHEMA_CHARS = 30_000


class McpServers:
    """The connections of one worker. generation: grows whenever the tools are others."""

    def __init__(self, servers: Mapping[str, McpServerConfig], clock: Clock) -> None:
        self.generation = 0
        self._servers = servers
        self._listed: dict[str, str] = {}
        self._tools: dict[str, list[Tool]] = {name: [] for name in servers}
        self._connections = {
            name: McpConnection(name, config, clock, partial(self._took, name))
            for name, config in servers.items()
        }

    @property
    def tools(self) -> list[Tool]:
        """The tools of all servers that were reached once; those of a dead one say that it is."""
        return [tool for name in self._servers for tool in self._tools[name]]

    def facts(self) -> dict[str, str]:
        """What `status` shows: the servers that do not work, and why."""
        return {
            f"mcp server {name}": connection.trouble
            for name, connection in self._connections.items()
            if connection.trouble
        }

    async def run(self) -> None:
        """Keep all connections up until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, connection in self._connections.items():
                group.create_task(connection.run(), name=f"mcp {name}")

    async def tried(self) -> None:
        """Wait until each server was reached, or was not in its time."""
        for connection in self._connections.values():
            await connection.first_try.wait()

    def _took(self, server: str, listed: Sequence[wire.Tool]) -> None:
        """Take over what a server lists, if it is anything new."""
        told = json.dumps([tool.model_dump(mode="json") for tool in listed])
        if self._listed.get(server) == told:
            return
        self._listed[server] = told
        made: dict[str, Tool] = {}
        for one in listed:
            if not any(fnmatchcase(one.name, p) for p in self._servers[server].tools):
                continue
            sessions = self._servers[server].sessions
            tool = _tool(server, one, self._connections[server], sessions)
            if tool is None or tool.name in made:
                log.warning("mcp_tool_left_out", server=server, tool=clean(one.name)[:NAME_CHARS])
                continue
            made[tool.name] = tool
        self._tools[server] = list(made.values())
        self.generation += 1


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, McpServerConfig], clock: Clock
) -> AsyncIterator[McpServers]:
    """The servers, each of them tried once; leaving ends the connections and what was started."""
    # The library logs what it cannot read, and with it what people wrote.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    logging.getLogger("client").setLevel(logging.CRITICAL + 1)
    # It would load this at the first call, on the event loop.
    await asyncio.to_thread(importlib.import_module, "jsonschema")
    made = McpServers(servers, clock)
    task = asyncio.create_task(made.run(), name="mcp servers")
    try:
        await made.tried()
        yield made
    finally:
        task.cancel()
        await asyncio.wait({task})


class _AnyArgs(BaseModel):
    """Arguments that the server checks."""

    model_config = ConfigDict(extra="allow")


class _McpTool:
    """A tool of a server; a subclass is made for each."""

    name: ClassVar[str]
    description: ClassVar[str]
    Args: ClassVar[type[BaseModel]]

    def __init__(
        self,
        connection: McpConnection,
        own_name: str,
        *,
        writes: bool,
        sessions: Sequence[str],
    ) -> None:
        self.sessions = sessions
        self._connection = connection
        self._own_name = own_name
        self._writes = writes

    @property
    def writes(self) -> bool:
        """See `ports.Writer`: it may change something, unless its server says that it looks."""
        return self._writes

    async def run(self, args: BaseModel, context: ToolContext) -> str:
        """See `ports.Tool`."""
        del context  # a server is told nothing of the turn
        return await self._connection.call(self._own_name, args.model_extra or {})


def _tool(
    server: str, listed: wire.Tool, connection: McpConnection, sessions: Sequence[str]
) -> Tool | None:
    """A server's tool as one of ours; None where it cannot be one."""
    name = f"{server}__{re.sub(r'[^a-z0-9_]', '_', listed.name.lower())}"
    schema = dict(listed.input_schema)
    if len(name) > NAME_CHARS or len(json.dumps(schema)) > SCHEMA_CHARS:
        return None

    def told(_cls: type[BaseModel], *_args: Any, **_kwargs: Any) -> dict[str, Any]:
        return schema

    args = type("Args", (_AnyArgs,), {"model_json_schema": classmethod(told)})
    described = clean(listed.description or listed.title or listed.name)[:DESCRIPTION_CHARS]
    made = type("McpTool", (_McpTool,), {"name": name, "description": described, "Args": args})
    hints = listed.annotations
    only_looks = hints is not None and bool(hints.read_only_hint)
    return cast("Tool", made(connection, listed.name, writes=not only_looks, sessions=sessions))
