"""`/remind`: what is to begin at a time, in the conversation in which it was asked for."""

from __future__ import annotations

from clawbot.commands.answers import answer
from clawbot.commands.tasks import Standing
from clawbot.messages import InboundMessage
from clawbot.ports import Transaction
from clawbot.schedules import BadTime, local, parse
from clawbot.session_key import SessionKey
from clawbot.store import schedules
from clawbot.store.schedules import Planned, Schedule, TooMany

DELETE = frozenset({"delete", "remove", "cancel", "删除", "取消"})
SHOWN_CHARS = 80


def remind(
    tx: Transaction,
    words: str,
    message: InboundMessage,
    session: SessionKey,
    standing: Standing | None,
    *,
    zone: str,
    now_ms: int,
) -> str:
    """`/remind TIME TEXT`, `/remind delete ID`, or the list of what is planned here."""
    like = message.text
    verb, _, rest = words.partition(" ")
    if not words:
        return _list(schedules.listing(tx, session.base), zone, like)
    if verb.casefold() in DELETE:
        named = rest.strip("` ")
        done = schedules.cancel(tx, session.base, named)
        return answer("remind_deleted" if done else "remind_unknown", like=like, id=named)
    try:
        when, text = parse(words, zone, now_ms)
        if not text:
            return answer("remind_what", like=like)
        planned = schedules.add(
            tx,
            Schedule(
                session=session,
                channel=message.channel,
                chat_id=message.chat_id,
                chat_type=message.chat_type,
                sender=message.sender,
                text=text,
                when=when,
                route=None if standing is None else standing.route,
                place_thread=None if standing is None else standing.place.thread,
            ),
            now_ms,
        )
    except BadTime as error:
        return answer(f"remind_bad_{error.problem}", like=like)
    except TooMany:
        return answer("remind_many", like=like, count=schedules.MOST_PER_CHAT)
    at = local(planned.next_ms, zone)
    return answer("remind_set", like=like, at=at, id=planned.id)


def lines(planned: list[Planned], zone: str, like: str) -> str:
    """What is planned, one a line."""
    return "\n".join(
        answer(
            "remind_one" if one.when.kind == "once" else "remind_one_of_many",
            like=like,
            id=one.id,
            at=local(one.next_ms, zone),
            text=_short(one.text),
        )
        for one in planned
    )


def _list(planned: list[Planned], zone: str, like: str) -> str:
    if not planned:
        return answer("remind_none", like=like)
    return answer("remind_list", like=like, lines=lines(planned, zone, like))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"
