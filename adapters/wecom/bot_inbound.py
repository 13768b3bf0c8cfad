"""From an AI bot's callback to an inbound message, or the reason why it is none. Pure: no network.

Webhook and long connection bring the same body. In a group the bot is only told of messages that
mention it; the mention stands in the text as `@` and the bot's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from adapters.payload import Json, dump, number_of, object_of, objects_of, parse, storable, text_of
from adapters.wechat.fields import clean
from clawbot.messages import Attachment, ChatType, Ignored, InboundMessage, Sender

_FILES = {"image": "image", "file": "file", "video": "video"}
_SPACES = re.compile(r"[^\S\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BotRoute:
    """How the answer to one message can be sent: a ReplyRoute's token, written and read here.

    stream: the id under which the answer grows. request: the long connection's request id. url:
    takes one message, within an hour. sender: whose message it was.
    """

    stream: str
    request: str = ""
    url: str = ""
    sender: str = ""

    def encode(self) -> str:
        """The token."""
        return dump(asdict(self))

    @classmethod
    def decode(cls, token: str | None) -> BotRoute:
        """Read a token; an empty route when there is none."""
        fields = parse(token or "") or {}
        return cls(**{name: text_of(fields.get(name)) for name in cls.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class BotFacts:
    """All that the parser needs besides the body. Empty texts mean not known."""

    channel: str
    bot_id: str = ""
    bot_name: str = ""


def parse_callback(body: Json, facts: BotFacts, request: str = "") -> InboundMessage | Ignored:
    """Read a callback's body; `request` is the long connection's request id."""
    body = storable(body)
    kind, sender = text_of(body.get("msgtype")), text_of(object_of(body.get("from")).get("userid"))
    bot = text_of(body.get("aibotid"))
    if bot and facts.bot_id and bot != facts.bot_id:
        return Ignored(reason="foreign_bot")
    if kind in {"event", "stream"}:
        name = text_of(object_of(body.get("event")).get("eventtype"))
        return Ignored(reason=name or kind)
    message_id = text_of(body.get("msgid"))
    if not kind or not sender or not message_id:
        return Ignored(reason="malformed")
    is_group = body.get("chattype") == "group"
    said = _own_words(body, facts.bot_name, is_group=is_group)
    attachments = tuple(_attachments(body))
    text = "\n".join((*([said] if said else []), *(_label(each) for each in attachments)))
    if not text:
        known = kind in {"text", "mixed", "voice", *_FILES}
        return Ignored(reason="empty" if known else f"unsupported:{kind}")
    seconds = number_of(body.get("create_time"))
    return InboundMessage(
        channel=facts.channel,
        identity=message_id,
        chat_id=text_of(body.get("chatid")) or sender,
        chat_type=ChatType.GROUP if is_group else ChatType.DM,
        sender=Sender(id=sender),
        text="\n\n".join(each for each in (_quote(body), text) if each),
        raw=dump({"request": request, "body": body}),
        mentioned=is_group,
        command_text=said or None,
        reply_token=BotRoute(
            stream=stream_id(message_id),
            request=request,
            url=text_of(body.get("response_url")),
            sender=sender,
        ).encode(),
        sent_at_ms=None if seconds is None else seconds * 1000,
        attachments=attachments,
    )


def stream_id(message_id: str) -> str:
    """The stream that answers a message: every attempt at it, in any process, names the same."""
    return hashlib.sha256(message_id.encode("utf-8", "replace")).hexdigest()[:32]


def without_mention(text: str, bot_name: str) -> str:
    """The text without the bot's mentions. A longer name that begins with the bot's is another's.

    Without a known name the leading mention is taken for the bot's.
    """
    if not bot_name:
        return re.sub(r"^\s*[@＠]\S+(?:\s+|$)", "", text).strip()
    name = re.escape(bot_name)
    # After an ASCII name Chinese may follow directly; a letter of the name's own script may not.
    ahead = r"(?![A-Za-z0-9_-])" if bot_name[-1:].isascii() else r"(?!\w)"
    mention = rf"(?<![A-Za-z0-9._-])[@＠]{name}{ahead}"  # not the end of an address
    return _SPACES.sub(" ", re.sub(mention, " ", text)).strip()


def _own_words(body: Json, bot_name: str, *, is_group: bool) -> str:
    told = "\n".join(each for each in map(_words, _items(body)) if each)
    text = clean(told).strip()
    return without_mention(text, bot_name) if is_group else text


def _items(message: Json) -> list[Json]:
    """The single contents of a message: itself, or what a mixed one holds."""
    if message.get("msgtype") == "mixed":
        return objects_of(object_of(message.get("mixed")).get("msg_item"))
    return [message]


def _words(item: Json) -> str:
    """What an item says: text, or the words recognised in a voice message."""
    kind = text_of(item.get("msgtype"))
    if kind not in {"text", "voice", "markdown"}:
        return ""
    return text_of(object_of(item.get(kind)).get("content"))


def _attachments(message: Json) -> Iterator[Attachment]:
    for item in _items(message):
        kind = text_of(item.get("msgtype"))
        about = object_of(item.get(kind))
        url = text_of(about.get("url"))
        if kind in _FILES and url:
            # The address is good for five minutes; the bytes are encrypted with the key.
            source = dump({"url": url, "aeskey": text_of(about.get("aeskey"))})
            name = text_of(about.get("name")) or text_of(about.get("filename")) or kind
            yield Attachment(kind=_FILES[kind], name=name, source=source)


def _label(attachment: Attachment) -> str:
    if attachment.name == attachment.kind:
        return f"[{attachment.kind}]"
    return f"[{attachment.kind}: {attachment.name}]"


def _quote(body: Json) -> str:
    """What the message quotes, marked as a quote."""
    quoted = object_of(body.get("quote"))
    told = [each for each in map(_words, _items(quoted)) if each]
    told += [_label(each) for each in _attachments(quoted)]
    lines = clean("\n".join(told)).strip().splitlines()
    return "\n".join(f"> {line}" for line in lines)
