"""From a callback's fields to an inbound message, or the reason why it is none. Pure: no network.

The chat of an Official Account or a WeCom app is its sender: there are no groups. A message is
known by sender and MsgId, an event, which has no MsgId, by sender, time and name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from adapters.payload import Json, number_of
from adapters.wechat.fields import text_field
from clawbot.messages import Attachment, ChatType, Ignored, InboundMessage, Sender

MORE_WORDS = frozenset({"1", "１", "more", "继续", "更多"})
"""What a person sends to fetch an answer, or the rest of one, that waits."""

_UNSUPPORTED = re.compile(
    r"[\[【].*(?:不支持的消息|unsupported (?:message|content)|not supported).*[\]】]",
    re.IGNORECASE | re.DOTALL,
)
_MEDIA = {
    "image": ("image", "image.jpg"),
    "voice": ("audio", "voice"),
    "video": ("video", "video.mp4"),
    "shortvideo": ("video", "video.mp4"),
    "file": ("file", "file"),
}
_LABELS = {"audio": "voice message"}
_MENU_EVENTS = frozenset({"click", "scancode_waitmsg"})


def parse_message(
    fields: Json, *, channel: str, raw: str, menu: Mapping[str, str]
) -> InboundMessage | Ignored:
    """Read a message or an event.

    menu: what a click on a menu entry means, by its key: the text that it stands for. Never raises
    for anything a peer can send.
    """
    sender, kind = text_field(fields, "FromUserName"), text_field(fields, "MsgType").lower()
    if not sender or not kind:
        return Ignored(reason="malformed")
    attachments: tuple[Attachment, ...] = ()
    if kind == "event":
        text = _menu_words(fields, menu)
        if not text:
            return Ignored(reason=event_name(fields) or "malformed")
    else:
        text, attachments = _content(fields, kind)
        if not text:
            return Ignored(reason="empty" if kind in {"text", "voice"} else f"unsupported:{kind}")
        if kind == "text" and _UNSUPPORTED.fullmatch(text):
            return Ignored(reason="unsupported")
    seconds = number_of(text_field(fields, "CreateTime"))
    is_words = kind in {"text", "event"} or bool(_recognised(fields))
    return InboundMessage(
        channel=channel,
        identity=identity_of(fields),
        chat_id=sender,
        chat_type=ChatType.DM,
        sender=Sender(id=sender),
        text=text,
        raw=raw,
        command_text=text if is_words else None,
        asks_for_more=kind == "text" and text.casefold() in MORE_WORDS,
        sent_at_ms=None if seconds is None else seconds * 1000,
        attachments=attachments,
    )


def event_name(fields: Json) -> str:
    """The event's name in lower case: WeChat and WeCom differ in it. "" for a message."""
    if text_field(fields, "MsgType").lower() != "event":
        return ""
    return text_field(fields, "Event").lower()


def identity_of(fields: Json) -> str:
    """The key that all attempts at one message or event share."""
    sender, sent = text_field(fields, "FromUserName"), text_field(fields, "CreateTime")
    message_id = text_field(fields, "MsgId")
    if message_id.strip("0") and not event_name(fields):
        return f"{sender}/{message_id}"
    if event := event_name(fields):
        return "/".join((sender, sent, event, text_field(fields, "EventKey")))
    content = text_field(fields, "MsgType") + text_field(fields, "Content")
    digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{sender}/{sent}/{digest}"


def _menu_words(fields: Json, menu: Mapping[str, str]) -> str:
    if event_name(fields) not in _MENU_EVENTS:
        return ""
    return menu.get(text_field(fields, "EventKey"), "").strip()


def _content(fields: Json, kind: str) -> tuple[str, tuple[Attachment, ...]]:
    """What a message says in words, and its files."""
    if kind == "text":
        return text_field(fields, "Content").strip(), ()
    if kind in _MEDIA:
        attachment = _attachment(fields, kind)
        label = _LABELS.get(attachment.kind, attachment.kind)
        name = text_field(fields, "FileName") or text_field(fields, "Title")
        words = f"[{label}: {name}]" if name else f"[{label}]"
        return _recognised(fields) or words, (attachment,) if attachment.source else ()
    if kind == "location":
        return _location(fields), ()
    if kind in {"link", "miniprogrampage"}:
        return _link(fields, "link" if kind == "link" else "mini program"), ()
    return "", ()


def _recognised(fields: Json) -> str:
    """The words of a voice message, where the account has recognition switched on."""
    return text_field(fields, "Recognition").strip()


def _attachment(fields: Json, kind: str) -> Attachment:
    family, name = _MEDIA[kind]
    if kind == "voice":
        name = f"voice.{text_field(fields, 'Format') or 'amr'}"
    source = text_field(fields, "MediaId16K") if kind == "voice" else ""
    source = source or text_field(fields, "MediaId") or text_field(fields, "PicUrl")
    return Attachment(kind=family, name=text_field(fields, "FileName") or name, source=source)


def _location(fields: Json) -> str:
    """Location_X is the latitude."""
    names = [text_field(fields, name).strip() for name in ("Poiname", "Label")]
    place = ", ".join(dict.fromkeys(name for name in names if name))
    where = ", ".join(
        text_field(fields, name) for name in ("Location_X", "Location_Y") if fields.get(name)
    )
    told = f"{place} ({where})" if place and where else place or where
    return f"[location] {told}" if told else "[location]"


def _link(fields: Json, label: str) -> str:
    names = ("Title", "Description", "Url", "PagePath")
    told = [text_field(fields, name).strip() for name in names]
    return "\n".join((f"[{label}]", *(each for each in told if each)))
