"""What people do to a whole session: open, rename, archive, set, bind, reset.

Units of work. Each change is told as an event of the session and counts from its next turn on.
Lists stand in `session_list`, the end of a session in `deletion`, copies in `copies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, select, update

from clawbot.errors import InvalidSettings, NoSuchSession, WorkDirsDiffer
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.session_settings import SessionSettings, changed, restored, stored
from clawbot.store import events, sessions, stops
from clawbot.store.schema import sessions as session_rows
from clawbot.store.stops import Stopped
from clawbot.text import clean

TITLE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session with what it has of its own. work_dirs: empty = the usual ones."""

    key: SessionKey
    title: str
    chat_type: str
    epoch: int
    last_seq: int
    visible_total: int
    settings: SessionSettings
    work_dirs: tuple[str, ...]
    archived: bool
    pool: str | None
    created_ms: int
    active_ms: int


def get(tx: Transaction, key: SessionKey) -> SessionInfo:
    """A session. Raise NoSuchSession."""
    row = sessions.find(tx, key)
    if row is None or row["deleted_ms"] is not None:
        raise NoSuchSession(f"session {key}: there is none; `clawbot sessions list` shows all")
    return _info(row)


def is_free(tx: Transaction, key: SessionKey) -> bool:
    """Whether a session can be made under this key."""
    row = sessions.find(tx, key)
    return row is None or row["deleted_ms"] is not None


def settings_of(tx: Transaction, key: SessionKey) -> SessionSettings:
    """A session's own settings; none where there is no such session yet."""
    row = sessions.find(tx, key)
    return restored(None if row is None else row["settings"])


def open_session(
    tx: Transaction,
    key: SessionKey,
    now_ms: int,
    *,
    work_dirs: Sequence[str] = (),
    rebind: bool = False,
) -> SessionInfo:
    """The session of this key, made if it is new; any number of callers get the same one.

    work_dirs binds a new session to directories. Raise WorkDirsDiffer when it is bound to others
    already, unless `rebind`: then they are replaced, and an event says so.
    """
    row = sessions.find(tx, key)
    if row is None or row["deleted_ms"] is not None:
        sessions.take_numbers(tx, key, 0, now_ms)
    if work_dirs:
        bind_dirs(tx, key, work_dirs, now_ms, rebind=rebind)
    return get(tx, key)


def rename(tx: Transaction, key: SessionKey, title: str, now_ms: int) -> None:
    """Give a session a title; "" takes it away. Raise NoSuchSession."""
    title = " ".join(clean(title).split())[:TITLE_CHARS]
    _change(tx, key, {"title": title}, "renamed", {"title": title}, now_ms)


def set_archived(tx: Transaction, key: SessionKey, now_ms: int, *, archived: bool) -> None:
    """Take a session out of the lists, or bring it back; a new message does so too."""
    kind = "archived" if archived else "unarchived"
    _change(tx, key, {"archived": archived}, kind, {}, now_ms)


def change_settings(
    tx: Transaction,
    key: SessionKey,
    values: Mapping[str, object],
    now_ms: int,
    *,
    unset: Sequence[str] = (),
) -> SessionSettings:
    """Give a session settings of its own, or let it inherit them again.

    Raise NoSuchSession or InvalidSettings: then nothing is changed.
    """
    own = changed(get(tx, key).settings, values, tuple(unset))
    data = stored(own)
    if data == stored(get(tx, key).settings):
        return own
    _change(tx, key, {"settings": data}, "settings_changed", {"settings": data or {}}, now_ms)
    return own


def bind_dirs(
    tx: Transaction, key: SessionKey, work_dirs: Sequence[str], now_ms: int, *, rebind: bool = False
) -> None:
    """Let a session work in these directories; none = the usual ones again.

    Raise WorkDirsDiffer when it works in others already, unless `rebind`.
    """
    found = get(tx, key)
    wanted = tuple(work_dirs)
    if wanted == found.work_dirs:
        return
    if found.work_dirs and not rebind:
        raise WorkDirsDiffer(
            f"session {key}: works in {', '.join(found.work_dirs)}, not in "
            f"{', '.join(wanted) or 'the usual directory'}; rebind it explicitly if that is meant"
        )
    data = {"from": list(found.work_dirs), "to": list(wanted)}
    _change(tx, key, {"work_dirs": list(wanted) or None}, "rebound", data, now_ms)


def set_pool(tx: Transaction, key: SessionKey, pool: str, now_ms: int) -> None:
    """Let another pool of workers run the session's turns. Raise NoSuchSession."""
    _change(tx, key, {"pool": pool}, "pool_changed", {"pool": pool}, now_ms)


def reset(tx: Transaction, key: SessionKey, now_ms: int) -> Stopped:
    """Begin a new epoch: an empty history under the same key. Raise NoSuchSession."""
    get(tx, key)
    return stops.stop(tx, key, now_ms, new_epoch=True)


def newest_of_directory(tx: Transaction, path: str) -> SessionKey | None:
    """The session of a directory, base or task, that was used last."""
    base = str(SessionKey.of_directory(path))
    found: str | None = tx.conn.execute(
        select(session_rows.c.key)
        .where(
            # The keys of its tasks and no others: "0" is the character after "/".
            (session_rows.c.key == base)
            | ((session_rows.c.key >= f"{base}/") & (session_rows.c.key < f"{base}0")),
            session_rows.c.archived.is_(False),
        )
        .order_by(session_rows.c.active_ms.desc(), session_rows.c.key)
        .limit(1)
    ).scalar_one_or_none()
    return None if found is None else SessionKey.parse(found)


def parsed_settings(pairs: Sequence[str]) -> dict[str, object]:
    """Settings from texts like `max_steps=20`. Raise InvalidSettings."""
    values: dict[str, object] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidSettings(f"setting {pair!r}: want NAME=VALUE, such as max_steps=20")
        values[name.strip()] = _value(text.strip())
    return values


def _value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _change(
    tx: Transaction,
    key: SessionKey,
    values: dict[str, Any],
    kind: str,
    data: dict[str, Any],
    now_ms: int,
) -> None:
    """Change a session that exists, and tell it."""
    get(tx, key)
    row = tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(key))
        .values(last_seq=session_rows.c.last_seq + 1, **values)
        .returning(session_rows.c.last_seq, session_rows.c.epoch)
    ).one()
    events.append(tx, key, row[0], row[1], kind, data, now_ms)


def _info(row: RowMapping) -> SessionInfo:
    return SessionInfo(
        key=SessionKey.parse(row["key"]),
        title=row["title"],
        chat_type=row["chat_type"],
        epoch=row["epoch"],
        last_seq=row["last_seq"],
        visible_total=row["visible_total"],
        settings=restored(row["settings"]),
        work_dirs=tuple(row["work_dirs"] or ()),
        archived=row["archived"],
        pool=row["pool"],
        created_ms=row["created_ms"],
        active_ms=row["active_ms"],
    )
