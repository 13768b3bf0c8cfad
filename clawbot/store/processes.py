"""Which processes are alive, and what the channels' state is.

A process proves that it lives by one heartbeat row; whoever owns something is a process, so one
missed heartbeat frees all that it owned. The store's own clock judges.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import delete, func, select, update

from clawbot.messages import ChannelHealth
from clawbot.ports import Transaction
from clawbot.store import inline
from clawbot.store.outbox import release_holder
from clawbot.store.schema import channel_state, inbox, processes, sessions, turns
from clawbot.store.topics import TURNS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process as `status` shows it; `age_ms` is the time since its last heartbeat. facts: what it
    has to tell, by what it concerns.
    """

    id: str
    role: str
    host: str
    pid: int
    started_ms: int
    age_ms: int
    facts: Mapping[str, str] = field(default_factory=dict)


def beat(
    tx: Transaction, process_id: str, role: str, facts: Mapping[str, str] | None = None
) -> None:
    """Say that this process lives, and how it is; the first beat registers it."""
    now = tx.lease_ms()
    tx.conn.execute(
        tx.insert(processes)
        .values(
            id=process_id,
            role=role,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=now,
            heartbeat_ms=now,
            facts=facts or None,
        )
        .on_conflict_do_update(
            index_elements=["id"], set_={"heartbeat_ms": now, "facts": facts or None}
        )
    )


def count(tx: Transaction, role: str, lease_ms: int) -> int:
    """How many processes of a role live; for one of them, so at least one."""
    lives = processes.c.heartbeat_ms >= tx.lease_ms() - lease_ms
    found = select(func.count()).select_from(processes).where(processes.c.role == role, lives)
    return max(1, tx.conn.execute(found).scalar_one())


def reap(tx: Transaction, lease_ms: int) -> list[str]:
    """Free all that processes without a heartbeat for `lease_ms` owned; return their ids.

    A freed session's running turn ended unclean, which counts as an attempt at it. Of several that
    reap at once the one that takes the dead process's row away frees, so that it counts once.
    """
    deadline = tx.lease_ms() - lease_ms
    is_dead = processes.c.heartbeat_ms < deadline
    dead = list(
        tx.conn.execute(delete(processes).where(is_dead).returning(processes.c.id)).scalars()
    )
    for process_id in dead:
        release(tx, process_id)
    return dead


def release(tx: Transaction, process_id: str) -> None:
    """Forget a process that has ended, and free at once what it still owned, also under the names
    of its later attempts (`ID.1`, `ID.2` …), which it takes while the store is away.
    """
    later = processes.c.id.startswith(f"{process_id}.", autoescape=True)
    names = tx.conn.execute(select(processes.c.id).where(later)).scalars()
    for name in (process_id, *names):
        _release(tx, name)


def _release(tx: Transaction, process_id: str) -> None:
    owned = list(
        tx.conn.execute(select(sessions.c.key).where(sessions.c.owner == process_id)).scalars()
    )
    if owned:
        tx.conn.execute(
            update(turns)
            .where(turns.c.session_key.in_(owned), turns.c.state == "running")
            .values(attempt=turns.c.attempt + 1)
        )
        tx.conn.execute(
            update(sessions)
            .where(sessions.c.owner == process_id)
            .values(owner=None, fence=sessions.c.fence + 1, due_ms=tx.lease_ms())
        )
        tx.ring(TURNS)
    tx.conn.execute(
        update(inbox)
        .where(inbox.c.enrich_holder == process_id, inbox.c.enrich_by_ms.is_not(None))
        .values(enrich_holder=None)
    )
    inline.release_holder(tx, process_id)
    release_holder(tx, process_id)
    tx.conn.execute(delete(processes).where(processes.c.id == process_id))


def live(tx: Transaction) -> list[ProcessRow]:
    """All processes with a heartbeat row."""
    now = tx.lease_ms()
    rows = tx.conn.execute(select(processes).order_by(processes.c.role, processes.c.id)).mappings()
    return [
        ProcessRow(
            id=row["id"],
            role=row["role"],
            host=row["host"],
            pid=row["pid"],
            started_ms=row["started_ms"],
            age_ms=now - row["heartbeat_ms"],
            facts=row["facts"] or {},
        )
        for row in rows
    ]


def set_channel_health(
    tx: Transaction,
    channel: str,
    process_id: str,
    health: ChannelHealth,
    now_ms: int,
    *,
    last_in_ms: int | None = None,
    last_out_ms: int | None = None,
) -> None:
    """Record how a channel is, and when it last received and sent, if it did."""
    values: dict[str, Any] = {
        "state": health.state,
        "detail": health.detail,
        "facts": health.facts or None,
        "process_id": process_id,
        "updated_ms": now_ms,
    }
    if last_in_ms is not None:
        values["last_in_ms"] = last_in_ms
    if last_out_ms is not None:
        values["last_out_ms"] = last_out_ms
    tx.conn.execute(
        tx.insert(channel_state)
        .values(channel=channel, **values)
        .on_conflict_do_update(index_elements=["channel"], set_=values)
    )


def status_rows(tx: Transaction) -> dict[str, list[dict[str, Any]]]:
    """What `clawbot status` prints: the processes and the channels."""
    return {
        "processes": [asdict(row) for row in live(tx)],
        "channels": [
            dict(row)
            for row in tx.conn.execute(
                select(channel_state).order_by(channel_state.c.channel)
            ).mappings()
        ],
    }
