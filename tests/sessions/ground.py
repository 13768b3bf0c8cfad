"""The real worker on a real store, with the simulated model, and people who write into sessions."""

from __future__ import annotations

import textwrap
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clawbot.config import Models
from clawbot.history import Entry
from clawbot.intake import admit_for_session
from clawbot.messages import Accepted
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, history, inbox, sessions
from clawbot.store.events import Event
from tests.flow.daemon import Daemon, run_daemon
from tests.sessions.scenes import asked
from tests.simulators.model import ModelSimulator, RecordedRequest

MODELS = Models(usual="scripted")

GLOBAL = SessionKey.of_global()


def write_config(folder: Path, model: ModelSimulator, extra: str = "", name: str = "a") -> Path:
    """A config without channels; `extra` is more YAML."""
    path = folder / f"clawbot-{name}.yaml"
    path.write_text(
        "\n".join(
            [
                f"state_dir: {folder / name}",
                "model: openai-chat:scripted",
                "providers:",
                f"  openai-chat: {{base_url: {model.base_url('openai-chat')}, api_key: made-up}}",
                "web: {enabled: false}",
                "limits: {heartbeat_s: 1, lease_s: 3, grace_s: 5}",
                textwrap.dedent(extra).strip(),
            ]
        ),
        encoding="utf-8",
    )
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Chats:
    """A daemon with a worker, and what people say to it and read of it."""

    daemon: Daemon
    model: ModelSimulator

    async def send(self, key: SessionKey, text: str, by: str = "me") -> Accepted:
        """Send a message; do not wait."""
        message = asked(uuid.uuid4().hex, text, by=by)
        return await self.daemon.store.write(
            lambda tx: admit_for_session(tx, message, key, MODELS, 1_760_000_000_000)
        )

    async def say(self, key: SessionKey, text: str) -> str:
        """Send a message and wait for the end of its turn; the reply."""
        accepted = await self.send(key, text)
        return await self.answered(key, accepted)

    async def answered(self, key: SessionKey, accepted: Accepted) -> str:
        """The reply to a message, once its turn has ended."""
        assert accepted.inbox_id is not None
        ids = [accepted.inbox_id]

        def look(tx: Transaction) -> tuple[str, list[Event]]:
            return inbox.states(tx, ids)[ids[0]], events.of_session(tx, key, 0, limit=10_000)

        _, log = await self.daemon.until(look, lambda found: found[0] in {"done", "dead"})
        replies = [event.data["text"] for event in log if event.kind == "reply"]
        return str(replies[-1]) if replies else ""

    async def history(self, key: SessionKey) -> list[Entry]:
        """The session's history in its epoch."""

        def load(tx: Transaction) -> list[Entry]:
            row = sessions.find(tx, key)
            return history.load(tx, key, 0 if row is None else row["epoch"], newest=100_000)

        return await self.daemon.store.read(load)


def turns_of(model: ModelSimulator) -> list[RecordedRequest]:
    """What the model was asked in turns, without summaries that are made beside them."""
    return [request for request in model.requests if "You are clawbot" in request.system]


@asynccontextmanager
async def chats(config: Path, model: ModelSimulator) -> AsyncIterator[Chats]:
    """A daemon with one worker."""
    async with run_daemon(config, "worker") as daemon:
        yield Chats(daemon=daemon, model=model)
