"""Notes: small facts that the processes of one channel share, such as what a platform counts.

A note is a text under a key of its channel, with an end. It is changed under a lock of its row, so
that of several processes each sees what the one before it left.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import delete, update

from clawbot.ports import Transaction
from clawbot.store.schema import channel_notes


def change(
    tx: Transaction,
    channel: str,
    key: str,
    change: Callable[[str | None], str | None],
    *,
    lasts_ms: int,
    now_ms: int,
) -> str | None:
    """Replace the text of a note by what `change` makes of it, None = there is none; return the
    text before.
    """
    locked = (
        tx.insert(channel_notes)
        .values(channel=channel, key=key, text="", until_ms=0)
        .on_conflict_do_update(index_elements=["channel", "key"], set_={"key": key})
        .returning(channel_notes.c.text, channel_notes.c.until_ms)
    )
    text, until_ms = tx.conn.execute(locked).one()
    before = text if until_ms > now_ms else None
    after = change(before)
    mine = (channel_notes.c.channel == channel) & (channel_notes.c.key == key)
    if after is None:
        tx.conn.execute(delete(channel_notes).where(mine))
    else:
        values = {"text": after, "until_ms": now_ms + lasts_ms}
        tx.conn.execute(update(channel_notes).where(mine).values(values))
    return before
