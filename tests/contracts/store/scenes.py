"""Messages, turns and replies for the clauses, made by the units that the daemon itself runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, select

from clawbot import intake
from clawbot.commands import tasks
from clawbot.config import ChannelPolicy, Models
from clawbot.config_sections import AllowLists
from clawbot.history import Entry, EntryKind, ToolCall, Usage
from clawbot.intake import ChannelRules
from clawbot.messages import (
    Accepted,
    ChatType,
    Choice,
    InboundMessage,
    MessageRef,
    Place,
    ReplyRoute,
    Sender,
)
from clawbot.ports import Store, Transaction
from clawbot.queueing import QueuePolicy
from clawbot.session_key import SessionKey
from clawbot.store import approvals, claims, grants, history, lanes, outbox, stops, turns, waiting
from clawbot.store.approvals import Closing, Decision, Ruling
from clawbot.store.claims import Claim
from clawbot.store.grants import ONCE, Lasting, Voter
from clawbot.store.inbox import InboxRow
from clawbot.store.outbox import OutboxRow
from clawbot.store.schema import inbox as inbox_rows
from clawbot.store.schema import metadata
from clawbot.store.turns import Outcome

NOW_MS = 1_760_000_000_000
DESK = "desk"
KEY = SessionKey.of_chat(DESK, "C1")
HERE = Place(channel=DESK, chat_id="C1")
ROUTE = {"chat_id", "thread", "can_edit"}
ENDINGS = {
    "approved": "approved by {by}",
    "denied": "denied by {by}",
    "expired": "expired",
    "cancelled": "cancelled",
}
EVERYONE = AllowLists(dm=("*",), groups=("*",), senders=("*",))


def rules_of(**changes: Any) -> ChannelRules:
    """Rules of a channel on which everybody may talk and need not mention."""
    policy: dict[str, Any] = {"scope": "thread", "allow": EVERYONE, "mention": "never"}
    known = {key: changes.pop(key) for key in list(changes) if key in ChannelPolicy.__slots__}
    values: dict[str, Any] = {
        "models": Models(usual="scripted"),
        "can_edit": True,
        "can_enrich": True,
        "context_rows": 50,
        "context_age_ms": 3_600_000,
        "enrich_ms": 20_000,
        "late_after_ms": 3_600_000,
    }
    return ChannelRules(policy=ChannelPolicy(**policy | known), **values | changes)


RULES = rules_of()
MENTION_RULES = rules_of(mention="required")


def said(identity: str, text: str = "hello", **changes: Any) -> InboundMessage:
    """A direct message; with `chat_type=ChatType.GROUP` one of a group."""
    values: dict[str, Any] = {
        "channel": DESK,
        "identity": identity,
        "chat_id": "C1",
        "chat_type": ChatType.DM,
        "sender": Sender(id=changes.pop("by", "U1")),
        "text": text,
        "raw": "{}",
        "command_text": text,
    }
    return InboundMessage(**values | changes)


def in_group(identity: str, text: str = "hello", **changes: Any) -> InboundMessage:
    """A message at the root of a group whose answers open threads, or in one of them."""
    thread = changes.get("thread")
    opens = None if thread else f"t-{identity}"
    return said(identity, text, **{"chat_type": ChatType.GROUP, "opens_thread": opens} | changes)


def shared_messages() -> list[InboundMessage]:
    """What two processes take in at once: each message is in both processes' hands."""
    return [said(f"both-{number}", chat_id=f"C{number % 7}") for number in range(60)]


async def accept(
    store: Store, message: InboundMessage, rules: ChannelRules = RULES, now_ms: int = NOW_MS
) -> Accepted:
    """Take a message in as the intake does."""
    return await intake.Intake(store, _Frozen(now_ms), rules).accept(message)


class _Frozen:
    """A clock that stands."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        self._now_ms += int(seconds * 1000)


def compose(rows: Sequence[InboxRow], overheard: Sequence[InboxRow]) -> list[Entry]:
    """The entries of a new turn: what was overheard, then what was said."""
    notes = [Entry(kind=EntryKind.NOTE, text=row.text) for row in overheard]
    return [*notes, *(Entry(kind=EntryKind.USER, text=row.text) for row in rows)]


async def claim(
    store: Store,
    worker: str = "worker",
    *,
    limit: int = 10,
    context_rows: int = 0,
    now_ms: int = NOW_MS,
    policy: QueuePolicy = "collect",
    running: Mapping[str, int] | None = None,
    per_chat: int = 1000,
    pools: Sequence[str] = (),
) -> list[Claim]:
    """Claim turns."""
    return await store.write(
        lambda tx: claims.claim(
            *(tx, worker),
            limit=limit,
            now_ms=now_ms,
            context_rows=context_rows,
            compose=compose,
            queue_of=lambda *_: policy,
            running=running,
            per_chat=per_chat,
            pools=pools,
        )
    )


async def begin(store: Store, text: str = "hello", worker: str = "worker") -> Claim:
    """A running turn on one message."""
    await accept(store, said(f"begin-{text}", text))
    (turn,) = await claim(store, worker)
    return turn


async def finish(
    store: Store, turn: Claim, reply: str | None = "done", state: str = "done"
) -> None:
    """End a turn."""
    outcome = Outcome(
        state=state,
        entries=() if reply is None else (Entry(kind=EntryKind.ASSISTANT, text=reply),),
        reply=reply,
    )
    await store.write(lambda tx: turns.finish(tx, turn, outcome, NOW_MS))


async def record(store: Store, turn: Claim, text: str = "a step") -> None:
    """Record a step."""
    entry = Entry(kind=EntryKind.ASSISTANT, text=text)
    await store.write(lambda tx: turns.record(tx, turn, [entry], NOW_MS))


async def record_call(store: Store, turn: Claim) -> None:
    """Record that the model wants a tool."""
    entry = Entry(
        kind=EntryKind.TOOL_CALL, call_id="c", tool="deploy", turn_id=turn.turn_id, step=0
    )
    await store.write(lambda tx: turns.record(tx, turn, [entry], NOW_MS))


async def give_back(store: Store, turn: Claim) -> None:
    """Let another worker go on, as a drain does."""
    await store.write(lambda tx: claims.give_back(tx, turn, NOW_MS))


async def draft(store: Store, turn: Claim, text: str = "a draft") -> int | None:
    """Show how far the reply is."""
    return await store.write(lambda tx: turns.write_draft(tx, turn, text, "", NOW_MS))


async def stop(store: Store, key: SessionKey = KEY, *, new_epoch: bool = False) -> stops.Stopped:
    """Stop a session."""
    return await store.write(lambda tx: stops.stop(tx, key, NOW_MS, new_epoch=new_epoch))


async def ask(
    store: Store,
    turn: Claim,
    approval_id: str = "a1",
    *,
    seq: int = 1,
    arguments: str = "{}",
    now_ms: int = NOW_MS,
    expires_ms: int = NOW_MS + 60_000,
    bound: str = "",
) -> Ruling:
    """Ask people about a call of a turn, or use what they decided."""
    call = ToolCall(call_id="c", tool="deploy", arguments=arguments, seq=seq)
    return await store.write(
        lambda tx: approvals.ask(
            *(tx, turn, call),
            new_id=approval_id,
            text=f"May I? {approval_id}",
            expires_ms=expires_ms,
            now_ms=now_ms,
            bound=bound,
            choices=(Choice(label="Yes", command=f"/approve {approval_id}"),),
            closing=Closing(text="May I?", endings=ENDINGS),
        )
    )


async def park(store: Store, turn: Claim, now_ms: int = NOW_MS) -> None:
    """Let a turn wait for people."""
    await store.write(lambda tx: turns.park(tx, turn, "so far", Usage(input_tokens=7), now_ms))


async def decide(
    store: Store,
    approval_id: str | None = "a1",
    *,
    by: str = "U1",
    is_owner: bool = False,
    approves: bool = True,
    place: Place | None = HERE,
    session: SessionKey = KEY,
    now_ms: int = NOW_MS,
    lasting: Lasting = ONCE,
) -> Decision:
    """Answer a question."""
    voter = Voter(person=by, is_owner=is_owner, session=session, place=place, name=f"<{by}>")
    return await store.write(
        lambda tx: approvals.decide(
            *(tx, voter, approval_id), approves=approves, reason="", now_ms=now_ms, lasting=lasting
        )
    )


async def granted(
    store: Store, *, by: str = "U1", place: Place | None = HERE, now_ms: int = NOW_MS
) -> list[str]:
    """The ids of what is allowed for longer, where somebody stands."""
    voter = Voter(person=by, is_owner=False, session=KEY, place=place)
    rows = await store.read(lambda tx: grants.in_force(tx, voter, now_ms))
    return [row["id"] for row in rows]


async def join(store: Store, turn: Claim) -> list[str]:
    """Let newcomers join a turn; return their texts."""
    entries = await store.write(lambda tx: waiting.join(tx, turn, compose, NOW_MS))
    return [entry.text for entry in entries]


async def put_reply(store: Store, text: str = "reply", **changes: Any) -> int:
    """A reply in the outbox, in the lane of its chat and thread."""
    names = {"chat_id": "C1"} | {name: changes.pop(name) for name in sorted(ROUTE & changes.keys())}
    route = ReplyRoute(**names)
    values: dict[str, Any] = {"channel": DESK, "state": "pending", "now_ms": NOW_MS}
    return await store.write(lambda tx: outbox.add(tx, route=route, text=text, **values | changes))


async def take_replies(
    store: Store, holder: str = "adapter", now_ms: int = NOW_MS, crowded: Sequence[str] = ()
) -> list[OutboxRow]:
    """Claim replies as an adapter process does."""
    return await store.write(
        lambda tx: lanes.claim(
            *(tx, DESK, holder, now_ms), limit=20, split=lambda text: [text], crowded=crowded
        )
    )


async def send(store: Store, row: OutboxRow, holder: str = "adapter", **ref: str) -> OutboxRow:
    """Record that the platform took the first part."""
    sent = MessageRef(**{"id": f"ref-{row.id}"} | ref)
    return await store.write(lambda tx: outbox.part_sent(tx, row, holder, 0, sent, NOW_MS))


async def settle(
    store: Store, row: OutboxRow, holder: str = "adapter", state: str = "sent"
) -> None:
    """End a reply."""
    await store.write(lambda tx: outbox.settle(tx, row, holder, state, NOW_MS))


def everything(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables: what must not change when nothing may be written."""
    return {
        table.name: [
            tuple(row) for row in tx.conn.execute(select(table).order_by(*table.primary_key))
        ]
        for table in metadata.sorted_tables
    }


async def column(store: Store, name: str, *where: Any) -> list[Any]:
    """One column of the tables, as "table.column", in the order of the primary key."""
    table_name, _, column_name = name.partition(".")
    table = metadata.tables[table_name]
    query = select(table.c[column_name]).where(*where).order_by(*table.primary_key)
    return await store.read(lambda tx: list(tx.conn.execute(query).scalars()))


async def texts_taken(store: Store) -> set[str]:
    """The identities of all rows."""
    return set(await column(store, f"{inbox_rows.name}.identity"))


def is_note(turn_id: str) -> ColumnElement[bool]:
    """What a turn was told of the talk before it."""
    messages = metadata.tables["messages"]
    return (messages.c.kind == "note") & (messages.c.turn_id == turn_id)


async def history_of(store: Store, key: SessionKey, epoch: int = 0) -> list[str]:
    """The texts of a session's history."""
    entries = await store.read(lambda tx: history.load(tx, key, epoch, newest=100))
    return [entry.text for entry in entries]


def standing(active: SessionKey = KEY) -> tasks.Standing:
    """Somebody at the place."""
    return tasks.Standing(
        place=HERE, base=KEY, active=active, is_owner=False, like="", now_ms=NOW_MS
    )


async def use(store: Store, name: str) -> str:
    """Choose a session as the command does; return what is answered."""
    return await store.write(lambda tx: tasks.use(tx, name, standing()))
