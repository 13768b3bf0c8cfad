"""Carrying commands out, inside the transaction that stores their message."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from clawbot.commands import tasks
from clawbot.commands.answers import answer
from clawbot.commands.grammar import Command
from clawbot.commands.tasks import Standing
from clawbot.messages import ChatType, InboundMessage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import stops
from clawbot.store.schema import inbox, turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a command came to. seq: its number in its session, if it took one."""

    text: str
    seq: int | None = None


def execute(
    tx: Transaction,
    command: Command,
    message: InboundMessage,
    session: SessionKey,
    *,
    model: str,
    now_ms: int,
    standing: Standing | None = None,
) -> Answered:
    """Carry out a command of a session, or, from the root of a threaded chat, of the chat.

    standing: where it was given; None where people choose their session otherwise (the web page).
    """
    like = message.text
    if command.name in {"task", "sessions", "use", "unread"}:
        return _about_sessions(tx, command, standing, like)
    if command.name == "help":
        return Answered(text=answer("help", like=like))
    if command.name == "new":
        done = stops.stop(tx, session, now_ms, new_epoch=True)
        return Answered(text=answer("new", like=like), seq=done.seq)
    if message.chat_type is ChatType.GROUP and message.thread is None:
        # At the root of a group a command names no thread: unless the root's own session works, it
        # speaks for the whole chat.
        keys = stops.open_keys(tx, message.channel, message.chat_id)
        if keys and str(session) not in keys:
            return Answered(text=_chat_status(keys, like))
    if command.name == "status":
        return Answered(text=_status(tx, session, like, model, now_ms))
    done = stops.stop(tx, session, now_ms)
    if done.withdrawn:
        text = answer("stopped_withdrawn", like=like, count=done.withdrawn)
    else:
        text = answer("stopped" if done.had_turn else "nothing_to_stop", like=like)
    return Answered(text=text, seq=done.seq)


def _about_sessions(
    tx: Transaction, command: Command, standing: Standing | None, like: str
) -> Answered:
    if standing is None:
        return Answered(text=answer("choose_on_page", like=like))
    if command.name == "task":
        return Answered(text=tasks.task(tx, command.words, standing))
    if command.name == "use" and command.words:
        return Answered(text=tasks.use(tx, command.words, standing))
    if command.name == "unread":
        return Answered(text=tasks.unread(tx, standing))
    return Answered(text=tasks.listing(tx, standing))


def _status(tx: Transaction, session: SessionKey, like: str, model: str, now_ms: int) -> str:
    started = tx.conn.execute(
        select(turns.c.started_ms).where(
            turns.c.session_key == str(session), turns.c.ended_ms.is_(None)
        )
    ).scalar_one_or_none()
    waiting = tx.conn.execute(
        select(func.count()).where(
            inbox.c.session_key == str(session),
            inbox.c.settled_ms.is_(None),
            inbox.c.state.in_(("received", "queued")),
        )
    ).scalar_one()
    if started is None and not waiting:
        return answer("status_idle", like=like, model=model)
    seconds = 0 if started is None else max(0, now_ms - started) // 1000
    return answer("status_running", like=like, seconds=seconds, count=waiting, model=model)


def _chat_status(keys: list[str], like: str) -> str:
    lines = "\n".join(f"- `{key}`" for key in keys[:20])
    return answer("chat_running", like=like, count=len(keys), sessions=lines)
