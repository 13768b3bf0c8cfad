"""A connection to one MCP server, kept up: connected, watched, and made again when it is lost.

The worker's connection serves all sessions. Nothing of a turn is kept on it, and the server is told
nothing of any: a call's arguments are all that goes out, and it can ask us for nothing (neither for
samples of a model, nor for directories, nor for what people would have to answer).
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, TextIO, cast

import anyio
import httpx2
import structlog
from mcp import Client, MCPError, StdioServerParameters
from mcp import types as wire
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from clawbot.agent.models import is_loopback
from clawbot.config_mcp import McpServerConfig
from clawbot.errors import ToolError
from clawbot.ports import Clock
from clawbot.text import clean, head_and_tail

log = structlog.get_logger(__name__)

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
LOOK_S = 15.0
MOST_TOOLS = 200
MOST_PAGES = 20

# The server dies with the worker, however that ends; Linux tells it so (PR_SET_PDEATHSIG, SIGKILL).
_TIED = "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);os.execvp(sys.argv[1],sys.argv[1:])"

# Where a server's error output goes: it may hold what people wrote.
_NOWHERE = cast("TextIO", subprocess.DEVNULL)

_LOST = (anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError, OSError)


class McpConnection:
    """One server. `run` keeps it connected until it is cancelled."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        clock: Clock,
        on_tools: Callable[[list[wire.Tool]], None],
    ) -> None:
        self.name = name
        self.first_try = asyncio.Event()
        self._config = config
        self._clock = clock
        self._on_tools = on_tools
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._trouble = "is not connected yet"

    @property
    def trouble(self) -> str:
        """Why it does not work now; "" when it does."""
        return "" if self._client is not None else self._trouble

    async def run(self) -> None:
        """Connect, and connect again after each loss, each time after a longer wait."""
        wait_s = FIRST_WAIT_S
        while True:
            connected = self._clock.monotonic()
            try:
                await self._serve()
                reason = "ended the connection"
            except TimeoutError:
                reason = f"did not answer within {self._config.connect_timeout_s:g} s"
            except Exception as error:  # noqa: BLE001 - whatever a server does must not end the worker
                reason = f"failed ({_innermost(error)})"
            finally:
                self._client = None
                self.first_try.set()
            if self._clock.monotonic() - connected > LONGEST_WAIT_S:
                wait_s = FIRST_WAIT_S
            self._trouble = f"{reason}; it is started again in {wait_s:.0f} s at most"
            log.warning("mcp_server_down", server=self.name, reason=reason, again_in_s=wait_s)
            await self._clock.sleep(wait_s * random.uniform(0.5, 1))  # noqa: S311 - jitter
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _serve(self) -> None:
        """Connect and stay so until the connection is lost. Raise what the attempt failed of."""
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._config.connect_timeout_s):
                client = await stack.enter_async_context(await self._opened(stack))
                tools = await _tools_of(client)
            self._lost.clear()
            self._client = client
            self._on_tools(tools)
            log.info("mcp_server_up", server=self.name, tools=len(tools))
            self.first_try.set()
            while not self._lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._lost.wait()
                        return
                async with asyncio.timeout(self._config.connect_timeout_s):
                    self._on_tools(await _tools_of(client))

    async def _opened(self, stack: AsyncExitStack) -> Client:
        config = self._config
        if config.command:
            parameters = StdioServerParameters(
                command=sys.executable,
                args=["-I", "-S", "-c", _TIED, *config.command],
                env={name: value.get_secret_value() for name, value in config.env.items()},
                cwd=config.dir,
            )
            transport = stdio_client(parameters, errlog=_NOWHERE)
        else:
            url = str(config.url)
            # It reads certificates from the disk: not on the event loop.
            made = await asyncio.to_thread(_http_client, config, url)
            http = await stack.enter_async_context(made)
            transport = streamable_http_client(url, http_client=http)
        return Client(transport, cache=None, read_timeout_seconds=config.connect_timeout_s)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool of the server; its text. Raise ToolError with what the model is to know.

        A call that was lost is never made again: nobody knows what it did.
        """
        client = self._client
        if client is None:
            raise ToolError(
                f"The server {self.name} does not work now: it {self._trouble}. Do without it, or "
                "try again later."
            )
        seconds = self._config.call_timeout_s
        try:
            async with asyncio.timeout(seconds):
                result = await client.call_tool(tool, dict(arguments), read_timeout_seconds=seconds)
        except TimeoutError as error:
            raise ToolError(f"The server {self.name} did not answer in {seconds:g} s.") from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise self._loses() from error
            if error.code == REQUEST_TIMEOUT:
                raise ToolError(
                    f"The server {self.name} did not answer in {seconds:g} s."
                ) from error
            text = head_and_tail(clean(error.message), self._config.result_chars)
            raise ToolError(f"The server {self.name} refuses the call: {text}") from error
        except _LOST as error:
            raise self._loses() from error
        except (RuntimeError, ValueError) as error:
            raise ToolError(f"The server {self.name} answered what cannot be read.") from error
        text = head_and_tail(clean(_text_of(result)), self._config.result_chars)
        if result.is_error:
            raise ToolError(text or f"The server {self.name} says that it failed, and not why.")
        return text or "(nothing)"

    def _loses(self) -> ToolError:
        self._lost.set()
        return ToolError(
            f"The connection to the server {self.name} was lost during the call: nobody knows "
            "whether it was carried out. The server is started again."
        )


def _http_client(config: McpServerConfig, url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={name: one.get_secret_value() for name, one in config.headers.items()},
        timeout=httpx2.Timeout(config.call_timeout_s, connect=config.connect_timeout_s),
        trust_env=not is_loopback(url),
    )


async def _tools_of(client: Client) -> list[wire.Tool]:
    tools: list[wire.Tool] = []
    cursor = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


def _text_of(result: wire.CallToolResult) -> str:
    """What the model reads of a result."""
    parts = [_block(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n\n".join(parts)


def _block(block: wire.ContentBlock) -> str:
    if isinstance(block, wire.TextContent):
        return block.text
    if isinstance(block, wire.ImageContent | wire.AudioContent):
        return f"[{block.type}, {block.mime_type}, not shown]"
    if isinstance(block, wire.ResourceLink):
        return f"[{block.name}: {block.uri}]"
    resource = block.resource
    if isinstance(resource, wire.TextResourceContents):
        return resource.text
    return f"[{resource.uri}, binary, not shown]"


def _innermost(error: BaseException) -> str:
    """The kind of the fault behind the groups that task groups make; no text of the server's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
