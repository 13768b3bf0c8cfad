"""Changing what a reply says after it was put into the outbox: a question that was decided, or a
choice that was made. What stands in a chat already is edited there, where its channel can.

A reply that was sent goes back to `pending`, with its parts; one that is on its way goes there once
it has been sent, because `outbox.settle` compares the revision that was sent with the newest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from sqlalchemy import and_, case, null, select, update

from clawbot.messages import Choice, ReplyRoute
from clawbot.ports import Transaction
from clawbot.store.schema import outbox
from clawbot.store.topics import outbox_topic


def revise(tx: Transaction, outbox_id: int, text: str, choices: Sequence[Choice] = ()) -> None:
    """Let a reply say this and offer these choices; nothing happens if it is gone."""
    row = tx.conn.execute(
        select(outbox.c.channel, outbox.c.route).where(outbox.c.id == outbox_id)
    ).one_or_none()
    if row is None:
        return
    values = {
        "text": text,
        "choices": [asdict(choice) for choice in choices] or null(),
        "revision": outbox.c.revision + 1,
    }
    if ReplyRoute(**row.route).can_edit:
        stands = and_(outbox.c.state == "sent", outbox.c.holder.is_(None))
        values |= {
            "state": case((stands, "pending"), else_=outbox.c.state),
            "settled_ms": case((stands, None), else_=outbox.c.settled_ms),
            "next_try_ms": case((stands, 0), else_=outbox.c.next_try_ms),
            "tries": case((stands, 0), else_=outbox.c.tries),
        }
    tx.conn.execute(update(outbox).where(outbox.c.id == outbox_id).values(values))
    tx.ring(outbox_topic(row.channel))


def withdraw(
    tx: Transaction, channel: str, chat_id: str, command: str, line: Callable[[Choice], str]
) -> bool:
    """Offer the choice of `command` in this chat no longer, and say in a line what came of it.
    False when nobody was offered it.
    """
    was_offered = False
    found = tx.conn.execute(
        select(outbox.c.id, outbox.c.text, outbox.c.choices).where(
            outbox.c.channel == channel,
            outbox.c.chat_id == chat_id,
            outbox.c.choices.is_not(null()),
        )
    )
    for row in found.all():
        choices = [Choice(**choice) for choice in row.choices]
        made = [choice for choice in choices if choice.command == command]
        if made:
            was_offered = True
            left = [choice for choice in choices if choice.command != command]
            revise(tx, row.id, f"{row.text}\n\n{line(made[0])}", left)
    return was_offered
