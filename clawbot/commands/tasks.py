"""The commands about sub-sessions: opening, choosing and closing them, and reading what was missed.

A place sees and uses only the sessions of its own base; an owner may also name any other key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import update

from clawbot.commands.answers import answer
from clawbot.errors import InvalidSessionKey
from clawbot.messages import Place, ReplyRoute
from clawbot.ports import Transaction
from clawbot.seed import given_seed
from clawbot.session_key import SessionKey
from clawbot.store import places, seeds, sessions, stops
from clawbot.store.places import Missed, Unread
from clawbot.store.schema import sessions as session_rows

BASE_NAMES = frozenset({"base", "main", "主会话", "主"})
MOST_MERGED_CHARS = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where somebody stands who gives a command. route: the way by which it is answered."""

    place: Place
    base: SessionKey
    active: SessionKey
    is_owner: bool
    like: str
    now_ms: int
    route: ReplyRoute | None = None


def name_of(session: SessionKey, like: str) -> str:
    """What people call a session of their place."""
    if session.task is None:
        return answer("base_name", like=like)
    return answer("task_name", like=like, task=session.task)


def footer(unread: Sequence[Unread], like: str) -> str:
    """The line below a reply that tells what is unread elsewhere; "" when nothing is."""
    if not unread:
        return ""
    parts = [
        answer("footer_part", like=like, name=name_of(item.session, like), count=item.count)
        for item in unread[:5]
    ]
    return answer("footer", like=like, parts=answer("footer_joint", like=like).join(parts))


def task(tx: Transaction, words: str, at: Standing) -> str:
    """`/task new ID [context]`, `/task use ID`, `/task done [ID]`; else explain them."""
    verb, _, rest = words.partition(" ")
    task_id, _, more = rest.strip().partition(" ")
    verb = {"新建": "new", "切换": "use", "完成": "done"}.get(verb, verb.casefold())
    if verb == "new" and task_id:
        return _new(tx, task_id, more.strip(), at)
    if verb == "use" and task_id:
        return use(tx, task_id, at)
    if verb == "done":
        return _done(tx, task_id, at)
    return answer("task_help", like=at.like)


def _new(tx: Transaction, task_id: str, context: str, at: Standing) -> str:
    session = at.base.with_task(task_id)
    row = sessions.find(tx, session)
    if row is not None and not row["archived"]:
        return answer("task_exists", like=at.like, task=task_id)
    sessions.take_numbers(tx, session, 1, at.now_ms)
    if row is not None:
        _set_archived(tx, session, archived=False)
        stops.stop(tx, session, at.now_ms, new_epoch=True)
    places.choose(tx, at.place, session)
    found = sessions.find(tx, session)
    total = found["visible_total"] if found is not None else 0
    places.mark_seen(tx, places.viewer_of(at.place), str(session), total)
    if context:
        seeds.give(tx, session, given_seed(context), at.now_ms)
    return answer("task_new", like=at.like, task=task_id)


def _done(tx: Transaction, task_id: str, at: Standing) -> str:
    session = at.base.with_task(task_id) if task_id else at.active
    row = None if session.task is None else sessions.find(tx, session)
    if row is None or row["archived"]:
        return answer("task_unknown", like=at.like, task=task_id or "-")
    stops.stop(tx, session, at.now_ms)
    _set_archived(tx, session, archived=True)
    lines = [answer("task_done", like=at.like, task=session.task)]
    if at.active == session:
        lines.append(use(tx, "base", at))
    return "\n\n".join(lines)


def _set_archived(tx: Transaction, session: SessionKey, *, archived: bool) -> None:
    tx.conn.execute(
        update(session_rows).where(session_rows.c.key == str(session)).values(archived=archived)
    )


def use(tx: Transaction, name: str, at: Standing) -> str:
    """`/use ID`: make a session of this place the active one, and deliver what was missed of it."""
    session = _named(tx, name.strip(), at)
    if session is None:
        return answer("use_unknown", like=at.like, name=name)
    places.choose(tx, at.place, session)
    missed = places.take_missed(tx, at.place, session, at.now_ms)
    _mark_all_seen(tx, session, at)
    lines = [answer("use", like=at.like, name=name_of(session, at.like))]
    return "\n\n".join([*lines, *(item.text for item in missed)])


def _named(tx: Transaction, name: str, at: Standing) -> SessionKey | None:
    if name.casefold() in BASE_NAMES:
        return at.base
    own = at.base.with_task(name)
    row = sessions.find(tx, own)
    if row is not None and not row["archived"]:
        return own
    try:
        key = SessionKey.parse(name)
    except InvalidSessionKey:
        return None
    is_ours = key.base == at.base
    exists = key == at.base or sessions.find(tx, key) is not None
    return key if exists and (is_ours or at.is_owner) else None


def _mark_all_seen(tx: Transaction, session: SessionKey, at: Standing) -> None:
    row = sessions.find(tx, session)
    if row is not None:
        viewer = places.viewer_of(at.place)
        places.mark_seen(tx, viewer, str(session), row["visible_total"])


def unread(tx: Transaction, at: Standing) -> str:
    """`/unread`: deliver what was missed of the other sessions of this place, merged."""
    blocks = []
    for item in places.overview(tx, at.place, at.base):
        if item.session == at.active:
            continue
        missed = places.take_missed(tx, at.place, item.session, at.now_ms)
        if missed:
            _mark_all_seen(tx, item.session, at)
            blocks.append(_block(item.session, missed, at.like))
    return "\n\n".join(blocks) or answer("nothing_unread", like=at.like)


def _block(session: SessionKey, missed: Sequence[Missed], like: str) -> str:
    return f"**{name_of(session, like)}**\n\n" + "\n\n".join(item.text for item in missed)


def listing(tx: Transaction, at: Standing) -> str:
    """`/sessions`: the sessions of this place, which is active, what runs and what is unread."""
    lines = []
    for item in places.overview(tx, at.place, at.base):
        marks = [
            answer("mark_active", like=at.like) if item.session == at.active else "",
            answer("mark_running", like=at.like) if item.is_running else "",
            answer("mark_unread", like=at.like, count=item.count) if item.count else "",
        ]
        told = ", ".join(mark for mark in marks if mark)
        name = name_of(item.session, at.like)
        title = f" ({item.title})" if item.title else ""
        lines.append(f"- {name}{title}{': ' + told if told else ''}")
    return answer("sessions", like=at.like, lines="\n".join(lines))
