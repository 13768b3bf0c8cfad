"""Tools of MCP servers: real servers over both transports, also dead, slow and verbose ones."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clawbot.session_key import SessionKey
from clawbot.store import processes
from tests.process.commands import clawbot
from tests.sessions.ground import Chats, chats, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall

A = SessionKey.of_chat("web", "a")
B = SessionKey.of_chat("web", "b")
ROOT = Path(__file__).parents[2]
SERVER = [sys.executable, "-m", "tests.simulators.mcp_server"]


def stdio(folder: Path, **more: object) -> str:
    """The YAML of a config with the server as a child of the worker."""
    keys = {"command": [*SERVER, str(folder)], "dir": str(ROOT), **more}
    return f"mcp: {{small: {keys}}}"


@asynccontextmanager
async def serving(folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The server as a process of its own, over HTTP."""
    process = await asyncio.create_subprocess_exec(
        *(*SERVER, "http", str(port), str(folder)), cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                    continue
                writer.close()
                break
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(is_so: Callable[[], bool]) -> None:
    while True:
        if is_so():
            return
        await asyncio.sleep(0.02)


async def observed(chat: Chats, name: str, key: SessionKey = A, **arguments: object) -> str:
    """What the model is told of one call."""
    text = f"call {name} {os.urandom(4).hex()}"
    chat.model.expect(Reply(tool_calls=(ToolCall(name=name, arguments=arguments),)), when=text)
    await chat.say(key, text)
    results = [entry for entry in await chat.history(key) if entry.kind == "tool_result"]
    return results[-1].text


async def facts(chat: Chats) -> dict[str, str]:
    rows = await chat.daemon.store.read(processes.live)
    return {name: told for row in rows for name, told in row.facts.items()}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_s_tools_are_offered_under_its_name_and_answer(
    tmp_path: Path, model: ModelSimulator, transport: str
) -> None:
    if transport == "stdio":
        async with chats(write_config(tmp_path, model, stdio(tmp_path)), model) as chat:
            await use_it(chat)
        return
    port = free_port()
    section = f"mcp: {{small: {{url: 'http://127.0.0.1:{port}/mcp'}}}}"
    async with (
        serving(tmp_path, port),
        chats(write_config(tmp_path, model, section), model) as chat,
    ):
        await use_it(chat)


async def use_it(chat: Chats) -> None:
    assert await observed(chat, "small__add", a=2, b=40) == "42"
    assert await observed(chat, "small__add", B, a=1, b=1) == "2"
    assert await observed(chat, "small__with_odd_name") == "odd"
    assert "the disk is on fire" in await observed(chat, "small__fail")
    assert "a" in await observed(chat, "small__add", a="no number", b=1)
    offered = {tool["function"]["name"] for tool in chat.model.requests[-1].body["tools"]}
    assert {"small__add", "small__hang", "read_file"} <= offered
    (add,) = [
        tool["function"]
        for tool in chat.model.requests[-1].body["tools"]
        if tool["function"]["name"] == "small__add"
    ]
    assert set(add["parameters"]["properties"]) == {"a", "b"}
    assert add["description"] == "Add two numbers."
    assert await facts(chat) == {}


async def test_what_is_not_offered_is_not_there(tmp_path: Path, model: ModelSimulator) -> None:
    section = stdio(tmp_path, tools=["a*", "much"])
    extra = f"{section}\ntools: {{offered: ['small__*']}}"
    async with chats(write_config(tmp_path, model, extra), model) as chat:
        await chat.say(A, "hello")
        tools = chat.model.requests[-1].body["tools"]
        assert {tool["function"]["name"] for tool in tools} == {"small__add", "small__much"}
        assert "There is no tool" in await observed(chat, "small__fail")


async def test_only_the_sessions_that_are_named_have_a_servers_tools(
    tmp_path: Path, model: ModelSimulator
) -> None:
    """A chat's key stands for its sub-sessions too, and nobody calls what is not offered."""
    section = stdio(tmp_path, sessions=["web:a", "slack:*"])
    async with chats(write_config(tmp_path, model, section), model) as chat:
        task = A.with_task("42")
        for key, has in ((A, True), (B, False), (task, True), (B.with_task("42"), False)):
            said = await observed(chat, "small__add", key, a=2, b=40)
            assert said == "42" if has else said.startswith("There is no tool 'small__add'")
            offered = {tool["function"]["name"] for tool in chat.model.requests[-1].body["tools"]}
            assert ("small__add" in offered) == has
            assert "read_file" in offered


async def test_results_are_capped_and_a_slow_call_ends(
    tmp_path: Path, model: ModelSimulator
) -> None:
    section = stdio(tmp_path, result_chars=2000, call_timeout_s=0.5)
    async with chats(write_config(tmp_path, model, section), model) as chat:
        assert len(await observed(chat, "small__much", chars=500_000)) < 3000
        assert "did not answer in 0.5 s" in await observed(chat, "small__hang")
        assert await observed(chat, "small__add", a=1, b=2) == "3"


async def test_a_server_finds_nothing_of_our_environment(
    tmp_path: Path, model: ModelSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "made-up")
    section = stdio(tmp_path, env={"GIVEN": "x"})
    async with chats(write_config(tmp_path, model, section), model) as chat:
        names = set((await observed(chat, "small__environment")).split())
    assert "GIVEN" in names
    assert names <= {
        *("GIVEN", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
        *("LC_CTYPE", "PWD", "_"),
    }


async def test_a_dead_server_says_so_disturbs_nobody_and_is_started_again(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with chats(write_config(tmp_path, model, stdio(tmp_path)), model) as chat:
        assert "nobody knows whether it was carried out" in await observed(chat, "small__die")
        told = ""
        async with asyncio.timeout(30):
            while told != "5":
                told = await observed(chat, "small__add", a=2, b=3)
                assert told == "5" or "does not work now" in told or "lost" in told
        assert len((tmp_path / "started").read_text().split()) == 2
        assert await chat.say(B, "and you?") == "ok"


async def test_a_server_that_never_comes_up_is_shown_and_holds_nobody_up(
    tmp_path: Path, model: ModelSimulator
) -> None:
    section = "mcp: {gone: {command: [/nonexistent/program]}}"
    config = write_config(tmp_path, model, section)
    async with chats(config, model) as chat:
        assert await chat.say(A, "hello") == "ok"
        await chat.daemon.until(processes.live, lambda rows: any(row.facts for row in rows))
        assert list(await facts(chat)) == ["mcp server gone"]
        async with clawbot(config, "status") as command:
            await command.ended()
            assert "mcp server gone" in command.text()


async def test_a_server_over_http_that_comes_late_is_found(
    tmp_path: Path, model: ModelSimulator
) -> None:
    port = free_port()
    section = f"mcp: {{small: {{url: 'http://127.0.0.1:{port}/mcp'}}}}"
    async with chats(write_config(tmp_path, model, section), model) as chat:
        assert "There is no tool" in await observed(chat, "small__add", a=1, b=1)
        async with serving(tmp_path, port), asyncio.timeout(60):
            while await observed(chat, "small__add", a=1, b=1) != "2":
                pass


async def test_a_server_dies_with_its_worker_however_that_ends(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, stdio(tmp_path))
    async with clawbot(config, "worker") as worker, asyncio.timeout(60):
        started = tmp_path / "started"
        await until(lambda: started.exists() and started.read_text().strip() != "")
        pid = int(started.read_text())
        os.kill(pid, signal.SIGSTOP)  # it cannot see that its input ends
        await worker.kill()
        await until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_stopped_turn_leaves_the_connection_to_the_others(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with chats(write_config(tmp_path, model, stdio(tmp_path)), model) as chat:
        call = Reply(tool_calls=(ToolCall(name="small__hang", arguments={}),))
        model.expect(call, when="hang now")
        accepted = await chat.send(A, "hang now")
        async with asyncio.timeout(30):
            await until((tmp_path / "hanging").exists)
        assert await observed(chat, "small__add", B, a=1, b=2) == "3"
        await chat.send(A, "/stop")
        await chat.answered(A, accepted)
        assert await observed(chat, "small__add", B, a=3, b=4) == "7"
        assert len((tmp_path / "started").read_text().split()) == 1
