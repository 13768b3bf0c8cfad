"""A small MCP server, over standard input and output or HTTP; it knows nothing of clawbot.

Run as `python -m tests.simulators.mcp_server` (its own process each time) with a folder as the last
word: what happens in it is written there, so that tests can see it from outside.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations


def made(folder: Path) -> MCPServer:
    """The server with its tools."""
    server = MCPServer("small")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool()
    def environment() -> str:
        """Tell the names of all that stands in the environment."""
        return " ".join(sorted(os.environ))

    @server.tool()
    def much(chars: int) -> str:
        """Answer at length."""
        return "x" * chars

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ToolError("the disk is on fire")

    @server.tool()
    async def hang() -> str:
        """Never answer."""
        (folder / "hanging").touch()
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    def die() -> str:
        """End at once, in the middle of the call."""
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @server.tool(name="With-Odd.Name")
    def odd() -> str:
        """Have a name that no provider takes."""
        return "odd"

    return server


def main() -> None:
    """Serve until the end of the input, or for ever."""
    *how, folder = sys.argv[1:]
    with (Path(folder) / "started").open("a") as log:
        log.write(f"{os.getpid()}\n")
    server = made(Path(folder))
    if how[:1] == ["http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(how[1]))
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
