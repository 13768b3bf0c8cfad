"""Which of several processes serves a channel of which the platform keeps one connection only.

The holder is a process: it is free for another one when its heartbeat row is gone, because it ended
or was reaped. A holder that was taken for dead, and lives, finds another one in its place.
"""

from __future__ import annotations

from sqlalchemy import Select, or_, select, update

from clawbot.ports import Transaction
from clawbot.store.schema import channel_state, processes


def holder_of(tx: Transaction, channel: str) -> str | None:
    """The process that serves a channel, if that lives."""
    found: str | None = tx.conn.execute(
        select(channel_state.c.holder).where(
            channel_state.c.channel == channel, channel_state.c.holder.in_(_living())
        )
    ).scalar_one_or_none()
    return found


def hold(tx: Transaction, channel: str, process_id: str, now_ms: int) -> bool:
    """Become the one that serves a channel, or stay it; False while another one lives."""
    tx.conn.execute(
        tx.insert(channel_state)
        .values(channel=channel, state="connecting", updated_ms=now_ms)
        .on_conflict_do_nothing()
    )
    taken = tx.conn.execute(
        update(channel_state)
        .where(
            channel_state.c.channel == channel,
            or_(
                channel_state.c.holder.is_(None),
                channel_state.c.holder == process_id,
                channel_state.c.holder.not_in(_living()),
            ),
        )
        .values(holder=process_id)
        .returning(channel_state.c.channel)
    )
    return taken.first() is not None


def _living() -> Select[tuple[str]]:
    return select(processes.c.id)
