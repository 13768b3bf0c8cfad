"""Sessions with something said in them, made by the units that the daemon itself runs."""

from __future__ import annotations

import uuid

from clawbot.config import Models
from clawbot.history import Entry, EntryKind, Usage
from clawbot.intake import admit_for_session
from clawbot.messages import Accepted, ChatType, InboundMessage, Sender
from clawbot.ports import Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import claims, turns
from clawbot.store.claims import Claim
from clawbot.store.schema import metadata
from clawbot.store.turns import Outcome
from tests.contracts.store.scenes import NOW_MS, compose

MODELS = Models(usual="scripted")


def asked(identity: str, text: str, *, channel: str = "web", by: str = "me") -> InboundMessage:
    """A message of the page or the terminal."""
    return InboundMessage(
        channel=channel,
        identity=identity,
        chat_id="page",
        chat_type=ChatType.DM,
        sender=Sender(id=by),
        text=text,
        raw="",
        command_text=text,
    )


async def ask(
    store: Store, key: SessionKey, text: str, identity: str = "", now_ms: int = NOW_MS
) -> Accepted:
    """Send a message into a session."""
    message = asked(identity or uuid.uuid4().hex, text)
    return await store.write(lambda tx: admit_for_session(tx, message, key, MODELS, now_ms))


async def claim(store: Store, worker: str = "worker", now_ms: int = NOW_MS) -> list[Claim]:
    """Claim what is due."""
    return await store.write(
        lambda tx: claims.claim(
            tx, worker, limit=100, now_ms=now_ms, context_rows=0, compose=compose
        )
    )


def answer(text: str) -> tuple[Entry, ...]:
    """A step with a tool call, its result, and the answer."""
    return (
        Entry(kind=EntryKind.THINKING, text="hm", signature="signed", step=0),
        Entry(
            kind=EntryKind.TOOL_CALL,
            tool="read_file",
            call_id="c1",
            arguments='{"path": "a"}',
            step=0,
            usage=Usage(input_tokens=10, output_tokens=2, cached_tokens=1),
        ),
        Entry(kind=EntryKind.TOOL_RESULT, tool="read_file", call_id="c1", text="no", is_error=True),
        Entry(kind=EntryKind.ASSISTANT, text=text, step=1),
    )


async def finish(store: Store, turn: Claim, text: str = "done", now_ms: int = NOW_MS) -> None:
    """End a turn with an answer."""
    outcome = Outcome(state="done", entries=answer(text), reply=text)
    await store.write(lambda tx: turns.finish(tx, turn, outcome, now_ms))


async def talk(store: Store, key: SessionKey, *texts: str, now_ms: int = NOW_MS) -> None:
    """Whole turns in a session."""
    for number, text in enumerate(texts):
        await ask(store, key, text, now_ms=now_ms + number)
        (turn,) = await claim(store, now_ms=now_ms + number)
        await finish(store, turn, f"re: {text}", now_ms + number)


def rows_about(tx: Transaction, needle: str) -> list[str]:
    """The tables in which a text stands anywhere."""
    return [
        table.name
        for table in metadata.sorted_tables
        if any(needle in repr(tuple(row)) for row in tx.conn.execute(table.select()))
    ]
