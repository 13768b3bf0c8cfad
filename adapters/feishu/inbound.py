"""From a Feishu payload to an inbound message, or the reason why it is none. Pure: no network.

thread is what Feishu calls thread_id, and nothing else: `root_id` and `parent_id` also stand in
plain quotes. In a group of topics the first message of a topic has no thread_id yet; its answer
opens the topic. The identities and routes here are the adapter's own; nobody else looks into them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from adapters.feishu.buttons import PRESSED, PRESSED_OLD, parse_press
from adapters.feishu.contents import Content, read_content
from adapters.feishu.facts import Facts
from adapters.feishu.legacy import is_legacy_message, modernised
from adapters.feishu.menu import MENU, parse_menu
from adapters.feishu.posts import attachments_of
from adapters.feishu.records import Told, told_by_card, told_by_forward, told_by_quote
from adapters.feishu.references import Asked
from adapters.feishu.words import Reader, first_id, join, read_mentions, trim
from adapters.payload import Json, dump, number_of, object_of, storable, text_of
from clawbot.messages import ChatType, Ignored, InboundMessage, Sender

_MESSAGE = "im.message.receive_v1"
_DM_TYPES = frozenset({"p2p", "private"})
_TOPIC_TYPES = frozenset({"topic", "topic_group"})
_BOT_TYPES = frozenset({"app", "bot"})
_NOTICES = frozenset({"system"})
_REASONS = {
    "im.message.recalled_v1": "recalled",
    "im.message.updated_v1": "edit",
    "im.message.message_read_v1": "read_receipt",
    "im.message.reaction.created_v1": "reaction",
    "im.message.reaction.deleted_v1": "reaction",
    "im.chat.member.bot.added_v1": "bot_added",
    "im.chat.member.bot.deleted_v1": "bot_removed",
    "im.chat.member.user.added_v1": "members",
    "im.chat.member.user.deleted_v1": "members",
    "im.chat.member.user.withdrawn_v1": "members",
    "im.chat.updated_v1": "chat_updated",
    "im.chat.disbanded_v1": "chat_disbanded",
    "im.chat.access_event.bot_p2p_chat_entered_v1": "chat_entered",
    "url.preview.get": "url_preview",
}

_OTHERS = {PRESSED: parse_press, PRESSED_OLD: parse_press, MENU: parse_menu}
"""What is no message and may stand for one."""


def parse_event(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """Read an event or callback, of the 2.0 or the 1.0 format.

    Never raises for anything a peer can send; what is no message is Ignored with a stable code.
    """
    payload = storable(payload)
    if is_legacy_message(payload):
        payload = modernised(payload, facts.identity.open_id)
    kind = event_type(payload)
    app_id = text_of(object_of(payload.get("header")).get("app_id"))
    if app_id and facts.identity.app_id and app_id != facts.identity.app_id:
        return Ignored(reason="foreign_app")
    if kind != _MESSAGE:
        read = _OTHERS.get(kind)
        reason = Ignored(reason=_REASONS.get(kind, "not_a_message"))
        return reason if read is None else read(payload, facts)
    event = object_of(payload.get("event"))
    message = object_of(event.get("message"))
    sender = _sender(object_of(event.get("sender")), facts)
    if isinstance(sender, Ignored):
        return sender
    if not text_of(message.get("message_id")) or not text_of(message.get("chat_id")):
        return Ignored(reason="malformed")
    if _kind(message) in _NOTICES:
        return Ignored(reason="notice")
    return _read(payload, message, sender, facts)


def event_type(payload: Json) -> str:
    """The type of an event of either format; "" where the payload is none."""
    header = object_of(payload.get("header"))
    return text_of(header.get("event_type")) or text_of(object_of(payload.get("event")).get("type"))


def chat_of(payload: Json) -> str:
    """The chat that a payload is about, in either format; "" if it names none."""
    event = object_of(payload.get("event"))
    holders = [object_of(event.get("message")), event, object_of(event.get("context"))]
    ids = [text_of(each.get(key)) for each in holders for key in ("chat_id", "open_chat_id")]
    return next((each for each in ids if each), "")


def needs_chat(payload: Json) -> str:
    """The group whose kind decides on a message's session; "" if nothing depends on it."""
    event = object_of(payload.get("event"))
    message = object_of(event.get("message"))
    if event_type(payload) != _MESSAGE or text_of(message.get("thread_id")):
        return ""
    if text_of(message.get("chat_type")) in _DM_TYPES | _TOPIC_TYPES:
        return ""
    return text_of(message.get("chat_id"))


# -- who -------------------------------------------------------------------------------------------


def _sender(sender: Json, facts: Facts) -> Sender | Ignored:
    """Who wrote it; a name only as far as we know it, the event holds none."""
    sender_id = first_id(sender.get("sender_id"))
    if not sender_id:
        return Ignored(reason="no_sender")
    if facts.identity.is_us(sender_id):
        return Ignored(reason="self")
    is_bot = text_of(sender.get("sender_type")) in _BOT_TYPES
    # An id that Feishu does not name is known as itself, so that it is not asked for again.
    known = is_bot or sender_id in facts.users
    name = facts.users.get(sender_id) or (sender_id if known else "")
    return Sender(id=sender_id, name=name, is_bot=is_bot)


# -- what ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a message stands; see `InboundMessage`."""

    chat_type: ChatType
    thread: str | None
    opens_thread: str | None
    root: str
    parent: str


def _kind(message: Json) -> str:
    return text_of(message.get("message_type")) or text_of(message.get("msg_type"))


def _read(payload: Json, message: Json, sender: Sender, facts: Facts) -> InboundMessage | Ignored:
    """A message of somebody else: its words, files and place."""
    message_id, chat_id = text_of(message.get("message_id")), text_of(message.get("chat_id"))
    reader = Reader(facts=facts, mentions=read_mentions(message))
    content, is_whole = _content(message, reader)
    if content.problem:
        return Ignored(reason=content.problem)
    own = trim(join(content.pieces))
    if not own:
        return Ignored(reason="empty")
    place = _place(message, facts)
    quoted = _quoted(place)
    quote = told_by_quote(quoted, facts) if quoted else Told(text="")
    header = object_of(payload.get("header"))
    sent_at = message.get("create_time")
    return InboundMessage(
        channel=facts.channel,
        identity=message_id,
        transport_ids=_transport_ids(header, message, sender),
        chat_id=chat_id,
        chat_type=place.chat_type,
        sender=sender,
        text=f"{quote.text}\n\n{own}" if quote.text else own,
        raw=_raw(payload),
        thread=place.thread,
        opens_thread=place.opens_thread,
        thread_root=(place.root or None) if place.thread else None,
        mentioned=reader.mentions_bot or _is_named(reader),
        mentions_others=reader.mentions_others,
        command_text=own.replace("\u00a0", " ") if content.is_spoken else None,
        reply_to=_anchor(message_id, place, facts),
        reply_token=Asked(message_id=message_id, is_direct=place.chat_type is ChatType.DM).encode(),
        is_incomplete=not all((sender.name, is_whole, reader.is_complete, quote.is_complete)),
        sent_at_ms=number_of(sent_at) or number_of(header.get("create_time")),
        attachments=tuple(attachments_of(message_id, content.files)),
    )


def _content(message: Json, reader: Reader) -> tuple[Content, bool]:
    """What the message says, and whether that is all; cards and forwards only the API tells."""
    kind, message_id = _kind(message), text_of(message.get("message_id"))
    source = message.get("content")
    content = read_content(kind, source if isinstance(source, str) else dump(source), reader)
    if kind not in {"interactive", "merge_forward"}:
        return content, True
    tell = told_by_card if kind == "interactive" else told_by_forward
    told = tell(message_id, reader.facts)
    return (Content(pieces=[told.text]) if told.text else content), told.is_complete


def _is_named(reader: Reader) -> bool:
    """Whether `mentions` holds us though no placeholder stands in the text (a card, a file)."""
    own_id = reader.facts.identity.open_id
    return bool(own_id) and any(each.id == own_id for each in reader.mentions.values())


# -- where -----------------------------------------------------------------------------------------


def _place(message: Json, facts: Facts) -> _Place:
    chat_id, declared = text_of(message.get("chat_id")), text_of(message.get("chat_type"))
    root, parent = text_of(message.get("root_id")), text_of(message.get("parent_id"))
    thread = text_of(message.get("thread_id")) or None
    has_topics = declared in _TOPIC_TYPES or facts.topic_chats.get(chat_id, False)
    opens = (root or text_of(message.get("message_id"))) if has_topics and not thread else None
    return _Place(
        chat_type=ChatType.DM if declared in _DM_TYPES else ChatType.GROUP,
        thread=thread,
        opens_thread=opens,
        root=root,
        parent=parent,
    )


def _anchor(message_id: str, place: _Place, facts: Facts) -> str | None:
    """The message that an answer is attached to: in a topic its root, for an answer to anything
    else there would open a topic of its own. Elsewhere it is quoted, in groups.
    """
    if place.thread or place.opens_thread:
        return place.root or message_id
    return message_id if facts.quotes and place.chat_type is ChatType.GROUP else None


def _quoted(place: _Place) -> str:
    """The message that this one quotes. Within a topic every message has the root as its parent."""
    if place.thread or place.opens_thread:
        return place.parent if place.parent != place.root else ""
    return place.parent


def _transport_ids(header: Json, message: Json, sender: Sender) -> tuple[str, ...]:
    """The event's id, and a mark of what was said when: a re-push was seen with a new message_id.

    Nobody says the same twice in one millisecond of one chat.
    """
    event_id = text_of(header.get("event_id"))
    ids = (event_id,) if event_id else ()
    created = text_of(message.get("create_time"))
    if not created.isascii() or not created.isdigit():
        return ids
    said = (sender.id, message.get("chat_id"), created, message.get("root_id"), _kind(message))
    mark = hashlib.sha256(dump([*said, message.get("content")]).encode()).hexdigest()[:32]
    return (*ids, f"said:{mark}")


def _raw(payload: Json) -> str:
    """The payload for later reading; Feishu's verification token is a secret and left out."""
    kept = {key: value for key, value in payload.items() if key != "token"}
    if isinstance(header := payload.get("header"), dict):
        kept["header"] = {key: value for key, value in header.items() if key != "token"}
    return dump(kept)
