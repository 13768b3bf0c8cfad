"""Turning messages away, and telling people so: once, and never in silence where it was for us."""

from __future__ import annotations

from dataclasses import replace

from clawbot.access import Verdict
from clawbot.commands.answers import answer
from clawbot.messages import Accepted, ChatType, InboundMessage
from clawbot.ports import Transaction
from clawbot.rates import WINDOW_MS, Over
from clawbot.router import Route
from clawbot.session_key import SessionKey
from clawbot.store import events, inbox, outbox
from clawbot.store.sessions import Numbers

DAY_MS = 86_400_000
QUEUE_FULL = "queue_full"
RATE = "rate_"


def refuse(
    tx: Transaction, message: InboundMessage, way: Route, verdict: Verdict, now_ms: int
) -> Accepted:
    """Keep that it came, if it was meant for us, and not what it said; tell a person in a direct
    chat once a day.
    """
    if message.chat_type is not ChatType.DM and not message.mentioned:
        return Accepted(inbox_id=None, decision="refused", reason=verdict.reason)
    bare = replace(message, text="", raw="", attachments=())
    row_id = inbox.put(tx, bare, state="refused", now_ms=now_ms, reason=verdict.reason)
    if verdict.reason == "dm_not_allowed" and not message.sender.is_bot:
        mark = f"denied:{message.sender.id}:{now_ms // DAY_MS}"
        if inbox.note_once(tx, message.channel, mark, now_ms):
            text = answer(
                "dm_denied", like=message.text, sender=message.sender.id, channel=message.channel
            )
            _tell(tx, message, way, row_id, text, now_ms)
    return Accepted(inbox_id=row_id, decision="refused", reason=verdict.reason)


def turn_away(
    tx: Transaction,
    message: InboundMessage,
    way: Route | None,
    session: SessionKey,
    numbers: Numbers,
    now_ms: int,
) -> Accepted:
    """Take a message not, because too many wait in its session. Its sender is told once for as long
    as the same message is the oldest that is not answered.
    """
    oldest = inbox.open_rows(tx, str(session), limit=1)
    row_id = inbox.put(
        tx,
        message,
        state="refused",
        now_ms=now_ms,
        reason=QUEUE_FULL,
        session=session,
        seq=numbers.last_seq,
    )
    mark = f"full:{session}:{message.sender.id}:{oldest[0].id if oldest else row_id}"
    if inbox.note_once(tx, message.channel, mark, now_ms):
        text = answer("queue_full", like=message.text)
        data = {"inbox": row_id, "text": text, "asked": message.text}
        events.append(tx, session, numbers.last_seq, numbers.epoch, "notice", data, now_ms)
        if way is not None:
            _tell(tx, message, way, row_id, text, now_ms)
    return Accepted(
        inbox_id=row_id, decision="refused", reason=QUEUE_FULL, session_key=str(session)
    )


def slow_down(
    tx: Transaction, message: InboundMessage, way: Route, over: Over, now_ms: int
) -> Accepted:
    """Take a message not, because too many come from its sender, or in its chat. They are told once
    a minute, in the name of all that is not taken in it.
    """
    row_id = inbox.put(tx, message, state="refused", now_ms=now_ms, reason=RATE + over)
    who = message.sender.id if over == "sender" else message.chat_id
    if inbox.note_once(tx, message.channel, f"{RATE}{over}:{who}:{now_ms // WINDOW_MS}", now_ms):
        text = answer(f"rate_{over}", like=message.text)
        _tell(tx, message, way, row_id, text, now_ms)
    return Accepted(inbox_id=row_id, decision="refused", reason=RATE + over)


def _tell(
    tx: Transaction, message: InboundMessage, way: Route, row_id: int, text: str, now_ms: int
) -> None:
    outbox.add(
        tx,
        channel=message.channel,
        route=way.reply,
        state="pending",
        text=text,
        now_ms=now_ms,
        inbox_id=row_id,
        skips_lane=True,
    )
