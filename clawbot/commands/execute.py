"""Carrying commands out, inside the transaction that stores their message."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqlalchemy import func, select

from clawbot.commands import costs, memory, tasks, votes
from clawbot.commands.answers import answer
from clawbot.commands.grammar import EVERYTHING, Command
from clawbot.commands.models import choose, in_use
from clawbot.commands.planning import plan
from clawbot.commands.reminders import remind
from clawbot.commands.tasks import Standing
from clawbot.config import Models
from clawbot.messages import ChatType, Choice, InboundMessage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import processes, revisions, stops, task_runs
from clawbot.store.grants import Voter
from clawbot.store.schema import approvals, inbox, turns

_MARKUP = re.compile(r"[\\`*_~<>\[\]|#@]")
LISTED = 20
FRESH_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a command came to. seq: its number in its session, if it took one. choices: what may be
    commanded next. is_settled: whether giving it again would change nothing.
    """

    text: str
    seq: int | None = None
    choices: tuple[Choice, ...] = ()
    is_settled: bool = False


def execute(
    tx: Transaction,
    command: Command,
    message: InboundMessage,
    session: SessionKey,
    *,
    models: Models,
    now_ms: int,
    standing: Standing | None = None,
    zone: str = "UTC",
) -> Answered:
    """Carry out a command of a session, or, from the root of a threaded chat, of the chat.

    models: those that may answer there.
    standing: where it was given; None where people choose their session otherwise (the web page).
    zone: the time zone in which people name times.
    """
    like = message.text
    if command.name in {"task", "sessions", "use", "unread"}:
        return _about_sessions(tx, command, standing, like)
    if command.name in {"approve", "deny"}:
        voter = _voter(message, session, standing)
        text, is_settled = votes.vote(tx, command, voter, like, zone, now_ms)
        return Answered(text=text, is_settled=is_settled)
    if command.name in {"model", "plan"}:
        text, choices = (
            choose(tx, command.words, session, models, like, now_ms)
            if command.name == "model"
            else (plan(tx, command.words, session, like, now_ms, usual=models.plan), ())
        )
        return Answered(text=text, choices=choices, is_settled=bool(command.words))
    if command.name == "new":
        done = stops.stop(tx, session, now_ms, new_epoch=True)
        return Answered(text=answer("new", like=like), seq=done.seq)
    if command.name not in {"stop", "status"}:
        text = (
            remind(tx, command.words, message, session, standing, zone=zone, now_ms=now_ms)
            if command.name == "remind"
            else _told(tx, command, session, like, now_ms, standing, zone)
        )
        return Answered(text=text)
    about_work = _about_work(tx, command, message, session, models, now_ms, standing)
    # What it names has ended, now or before.
    return replace(about_work, is_settled=command.name == "stop" and bool(command.words))


def _told(
    tx: Transaction,
    command: Command,
    session: SessionKey,
    like: str,
    now_ms: int,
    standing: Standing | None,
    zone: str,
) -> str:
    """`/context`, `/compact`, `/cost` and `/help`."""
    if command.name == "context":
        return memory.context(tx, session, like)
    if command.name == "compact":
        return memory.compact(tx, session, like)
    if command.name == "cost" and command.words:
        if standing is not None and not standing.is_owner:
            return answer("owners_only_cost", like=like)
        return costs.of_all(tx, like, now_ms, zone)
    if command.name == "cost":
        return costs.of_session(tx, session, like, now_ms, zone)
    return answer("help", like=like)


def _voter(message: InboundMessage, session: SessionKey, standing: Standing | None) -> Voter:
    """Who answers a question. At the root of a chat they speak for all its threads."""
    return Voter(
        person=message.sender.id,
        is_owner=standing is None or standing.is_owner,
        session=session,
        place=None if standing is None else replace(standing.place, thread=message.thread),
        name=_name_of(message),
    )


def _name_of(message: InboundMessage) -> str:
    """Who wrote it, without what Markdown would make of the name."""
    return _MARKUP.sub("", " ".join(message.sender.name.split())) or message.sender.id


def _about_work(
    tx: Transaction,
    command: Command,
    message: InboundMessage,
    session: SessionKey,
    models: Models,
    now_ms: int,
    standing: Standing | None,
) -> Answered:
    """`/stop` and `/status`."""
    like = message.text
    if command.name == "stop" and command.words.casefold() in EVERYTHING:
        if standing is not None and not standing.is_owner:
            return Answered(text=answer("owners_only", like=like))
        return _stop_all(tx, session, like, now_ms)
    if command.name == "stop" and message.chat_type is ChatType.GROUP:
        named = _stop_named(tx, command.words.strip("` "), message, now_ms)
        if named is not None:
            return named
    if message.chat_type is ChatType.GROUP and message.thread is None:
        # At the root of a group a command names no thread: unless the root's own session works, it
        # speaks for the whole chat.
        keys = stops.open_keys(tx, message.channel, message.chat_id)
        if keys and str(session) not in keys:
            return _chat_status(keys, like)
    if command.name == "status":
        return Answered(text=_status(tx, session, like, in_use(tx, session, models), now_ms))
    return _stop(tx, session, like, now_ms)


def _stop(tx: Transaction, session: SessionKey, like: str, now_ms: int) -> Answered:
    done = stops.stop(tx, session, now_ms)
    if done.withdrawn:
        text = answer("stopped_withdrawn", like=like, count=done.withdrawn)
    else:
        ended = done.had_turn or done.tasks
        text = answer("stopped" if ended else "nothing_to_stop", like=like)
    return Answered(text=text, seq=done.seq)


def _stop_named(tx: Transaction, key: str, message: InboundMessage, now_ms: int) -> Answered | None:
    """`/stop KEY`: a session of this chat, that runs or was offered to be stopped; else None."""
    is_open = bool(key) and key in stops.open_keys(tx, message.channel, message.chat_id)
    done = Answered(text=answer("nothing_to_stop", like=message.text))
    if is_open:
        stopped = _stop(tx, SessionKey.parse(key), message.text, now_ms)
        done = replace(stopped, seq=None)  # a number of that session, not of the command's own

    def line(choice: Choice) -> str:
        told = {"label": choice.label, "by": _name_of(message), "outcome": done.text}
        return answer("choice_made", like=message.text, **told)

    channel, chat_id = message.channel, message.chat_id
    was_offered = revisions.withdraw(tx, channel, chat_id, f"/stop {key}", line)
    return done if is_open or was_offered else None


def _stop_all(tx: Transaction, session: SessionKey, like: str, now_ms: int) -> Answered:
    """Stop whatever runs anywhere, and say what that was."""
    stopped = stops.stop_all(tx, now_ms)
    if not stopped:
        return Answered(text=answer("nothing_to_stop_anywhere", like=like))
    lines = [
        answer(
            "stopped_one",
            like=like,
            session=one.session,
            turns=int(one.had_turn),
            waiting=one.withdrawn,
        )
        for one in stopped[:LISTED]
    ]
    if len(stopped) > LISTED:
        lines.append(answer("stopped_more", like=like, count=len(stopped) - LISTED))
    text = answer("stopped_all", like=like, count=len(stopped), lines="\n".join(lines))
    return Answered(text=text, seq=next((s.seq for s in stopped if s.session == session), None))


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
    tasks = _trouble(tx, model, like) + _tasks(tx, session, like)
    asked = tx.conn.execute(
        select(approvals.c.id).where(
            approvals.c.session_key == str(session), approvals.c.decided_ms.is_(None)
        )
    ).scalars()
    if (question := asked.first()) is not None:
        return answer("status_parked", like=like, id=question, model=model) + tasks
    if started is None and not waiting:
        return answer("status_idle", like=like, model=model) + tasks
    seconds = 0 if started is None else max(0, now_ms - started) // 1000
    return answer("status_running", like=like, seconds=seconds, count=waiting, model=model) + tasks


def _trouble(tx: Transaction, model: str, like: str) -> str:
    """Whether a worker has found that the model does not work; "" where none has."""
    told = [one.facts for one in processes.live(tx) if one.age_ms < FRESH_MS]
    if not any(f"model {model}" in facts for facts in told):
        return ""
    return "\n" + answer("status_model_fails", like=like)


def _tasks(tx: Transaction, session: SessionKey, like: str) -> str:
    """What the agent does beside this conversation; "" for nothing."""
    runs = task_runs.open_of(tx, session)
    names = [f"`{run.session.task}` ({_MARKUP.sub('', run.title)})" for run in runs]
    return "\n" + answer("status_tasks", like=like, tasks=", ".join(names)) if names else ""


def _chat_status(keys: list[str], like: str) -> Answered:
    shown = keys[:LISTED]
    lines = "\n".join(f"{number}. `{key}`" for number, key in enumerate(shown, 1))
    choices = tuple(
        Choice(label=answer("choice_stop", like=like, number=number), command=f"/stop {key}")
        for number, key in enumerate(shown, 1)
    )
    text = answer("chat_running", like=like, count=len(keys), sessions=lines)
    return Answered(text=text, choices=choices)
