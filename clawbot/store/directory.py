"""The router's look-ups in the store."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from clawbot.messages import InboundMessage, Place
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import threads
from clawbot.store.schema import aliases, places
from clawbot.store.schema import sessions as session_rows

_ALIAS = select(aliases.c.session_key).where(
    aliases.c.channel == bindparam("of_channel"),
    aliases.c.chat_id == bindparam("of_chat"),
    aliases.c.thread == bindparam("of_thread"),
)
_ACTIVE = select(places.c.active_session).where(
    places.c.channel == bindparam("of_channel"),
    places.c.chat_id == bindparam("of_chat"),
    places.c.thread == bindparam("of_thread"),
)


class StoredDirectory:
    """The router's look-ups in the store, within one transaction."""

    def __init__(self, tx: Transaction, message: InboundMessage, now_ms: int) -> None:
        self._tx = tx
        self._message = message
        self._now_ms = now_ms

    def alias_of(self, channel: str, chat_id: str, thread: str) -> str | None:
        """See `router.Directory`. A thread whose root began a session here is joined to it now."""
        params = {"of_channel": channel, "of_chat": chat_id, "of_thread": thread}
        found: str | None = self._tx.run(_ALIAS, params).scalar_one_or_none()
        root = self._message.thread_root
        if found is not None or root is None or root == thread:
            return found
        by_root = str(SessionKey.of_chat(channel, chat_id, thread=root))
        if not self.has_session(by_root):
            return None
        threads.learn(self._tx, channel, chat_id, thread, by_root, self._now_ms)
        return by_root

    def active_session(self, place: Place) -> str | None:
        """See `router.Directory`."""
        params = {
            "of_channel": place.channel,
            "of_chat": place.chat_id,
            "of_thread": place.thread or "",
        }
        chosen: str | None = self._tx.run(_ACTIVE, params).scalar_one_or_none()
        return chosen

    def has_session(self, key: str) -> bool:
        """Whether a session exists."""
        return (
            self._tx.conn.execute(
                select(session_rows.c.key).where(session_rows.c.key == key)
            ).scalar_one_or_none()
            is not None
        )
