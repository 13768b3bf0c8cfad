"""Scenario A4: fifty conversations at once are each what they would be alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import select

from clawbot.agent.dialects import dialect_of
from clawbot.agent.wire import to_wire
from clawbot.history import Entry, EntryKind, ModelReply, ModelRequest, ToolCall, Usage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import history
from clawbot.store.schema import inbox
from clawbot.work_dirs import work_dir_of
from tests.flow.daemon import Daemon, run_daemon
from tests.sessions.scenes import ask

SESSIONS = 50
TURNS = 20
CONFIG = """\
state_dir: {folder}/state
model: openai-chat:scripted
providers:
  openai-chat: {{base_url: "http://127.0.0.1:1/v1", api_key: made-up}}
web: {{enabled: false}}
"""

History = list[tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class DigestModel:
    """Answers with a digest of all that it is told, so that whatever strays in changes the answer.

    It calls a tool now and then, and takes its time, by chance or (`seed` None) not at all.
    """

    seed: int | None
    name: str = "openai-chat:scripted"
    seen: dict[str, set[str]] = field(default_factory=dict)
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    async def reply(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
        dialect = dialect_of("openai-chat", None)
        assert dialect is not None
        to_wire(request, dialect, self.name)
        told = [request.system, *map(said, request.entries)]
        digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]
        await self._linger()
        if int(digest, 16) % 3 == 0 and request.entries[-1].kind is EntryKind.USER:
            call = ToolCall(call_id=digest, tool="read_file", arguments='{"path": "README.md"}')
            return ModelReply(tool_calls=(call,), finish_reason="tool_calls")
        on_text(digest)
        await self._linger()
        return ModelReply(text=digest, usage=Usage(input_tokens=len(told), output_tokens=1))

    async def _linger(self) -> None:
        if self.seed is not None:
            for _ in range(self._random.randrange(12)):
                await asyncio.sleep(0)


def said(entry: Entry) -> str:
    """What an entry tells a model, without the names and times that differ from run to run."""
    return f"{entry.kind} {entry.sender} {entry.tool} {entry.arguments} {entry.text}"


def key_of(number: int) -> SessionKey:
    key = SessionKey.of_chat("web", f"chat-{number % 40}")
    return key if number < 40 else key.with_task("7")  # some share a chat, and its directory


def words(number: int, turn: int) -> str:
    return f"message {turn} of session {number}"


def idle_sessions(tx: Transaction) -> set[str]:
    """The sessions in which nothing is open."""
    mine = {str(key_of(number)) for number in range(SESSIONS)}
    open_keys = select(inbox.c.session_key).where(inbox.c.settled_ms.is_(None)).distinct()
    return mine - set(tx.conn.execute(open_keys).scalars())


async def talk(daemon: Daemon, numbers: Sequence[int], *, at_once: int) -> None:
    """Let people write, in `at_once` sessions at a time, each after the answer to what they said
    before.
    """
    waiting = deque(numbers)
    sent: dict[int, int] = {}
    async with asyncio.timeout(100):
        while waiting or sent:
            while waiting and len(sent) < at_once:
                sent[waiting.popleft()] = 0
            idle = await daemon.store.read(idle_sessions)
            for number, turn in list(sent.items()):
                if str(key_of(number)) not in idle:
                    continue
                if turn == TURNS:
                    del sent[number]
                else:
                    await ask(daemon.store, key_of(number), words(number, turn))
                    sent[number] = turn + 1
            await asyncio.sleep(0.002)


async def histories(daemon: Daemon, numbers: Sequence[int]) -> dict[int, History]:
    found = {}
    for number in numbers:
        key = key_of(number)
        entries = await daemon.store.read(
            lambda tx, key=key: history.load(tx, key, 0, newest=10_000)
        )
        found[number] = [(said(entry), str(entry.step), str(entry.is_error)) for entry in entries]
    return found


async def run_all(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    numbers: Sequence[int],
    *,
    seed: int | None,
    at_once: int,
) -> dict[int, History]:
    """Conversations on a fresh state; each chat's README holds something of its own."""
    config = folder / "clawbot.yaml"
    config.write_text(CONFIG.format(folder=folder))
    for number in range(40):
        work_dir = work_dir_of(folder / "state", key_of(number))
        work_dir.mkdir(parents=True)
        (work_dir / "README.md").write_text(f"secret of chat {number}")
    model = DigestModel(seed=seed)
    monkeypatch.setattr("clawbot.agent.models.open_model", lambda *_: model)
    async with run_daemon(config, "worker") as daemon:
        await talk(daemon, numbers, at_once=at_once)
        return await histories(daemon, numbers)


async def test_a4_fifty_sessions_of_twenty_turns_at_once_equal_their_solo_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth of them, the tasks among them, is run alone too: that takes the time."""
    for name in ("solo", "together"):
        (tmp_path / name).mkdir()
    alone = [*range(0, 40, 5), 41, 45]
    solo = await run_all(tmp_path / "solo", monkeypatch, alone, seed=None, at_once=1)
    together = await run_all(
        tmp_path / "together", monkeypatch, range(SESSIONS), seed=4, at_once=SESSIONS
    )
    for number in alone:
        assert together[number] == solo[number], number
    for number, found in together.items():
        texts = [text for text, *_ in found]
        assert sum(text.startswith("user") for text in texts) == TURNS
        secret = f"secret of chat {number % 40}"
        assert any(secret in text for text in texts)
        assert not any("secret of" in text and secret not in text for text in texts)
    assert len({str(found) for found in together.values()}) == SESSIONS
