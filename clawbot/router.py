"""From a message to its session, its place and the route of its answer; frozen with the message.

scope thread: a thread is a session, and so is a root message whose answers open a thread; the rest
    of the chat is one session.
scope chat: the chat is one session.
scope user: in a group each person has a session.

Workers never choose where to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clawbot.messages import ChatType, InboundMessage, Place, ReplyRoute
from clawbot.session_key import SessionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a message belongs and where its answer stands.

    base: the session of the place itself; session: the one that people there have chosen.
    """

    base: SessionKey
    session: SessionKey
    place: Place
    reply: ReplyRoute


class Directory(Protocol):
    """What the router looks up."""

    def alias_of(self, channel: str, chat_id: str, thread: str) -> str | None:
        """The session key that a thread id was joined to later, if any."""
        ...

    def active_session(self, place: Place) -> str | None:
        """The session that people at this place have chosen, if any."""
        ...


def route(
    message: InboundMessage,
    scope: str,
    directory: Directory,
    *,
    can_edit: bool,
    file_bytes: int | None = None,
) -> Route:
    """Derive the session, place and reply route of a message."""
    thread = message.thread
    if thread is None and scope == "thread":
        thread = message.opens_thread
    place = Place(channel=message.channel, chat_id=message.chat_id, thread=thread)
    base = _base_session(message, scope, place, directory)
    chosen = directory.active_session(place)
    session = SessionKey.parse(chosen) if chosen else base
    reply = ReplyRoute(
        chat_id=message.chat_id,
        thread=thread,
        reply_to=message.reply_to,
        token=message.reply_token,
        can_edit=can_edit,
        max_file_bytes=file_bytes,
    )
    return Route(base=base, session=session, place=place, reply=reply)


def _base_session(
    message: InboundMessage, scope: str, place: Place, directory: Directory
) -> SessionKey:
    if scope == "user" and message.chat_type is ChatType.GROUP:
        return SessionKey.of_chat(message.channel, message.chat_id, user=message.sender.id)
    if scope != "thread" or place.thread is None:
        return SessionKey.of_chat(message.channel, message.chat_id)
    alias = directory.alias_of(message.channel, message.chat_id, place.thread)
    if alias is not None:
        return SessionKey.parse(alias)
    return SessionKey.of_chat(message.channel, message.chat_id, thread=place.thread)
