"""Events of the old 1.0 format, rewritten as 2.0 messages. Pure.

Apps made before 2021 still receive them. Mentions stand in the text as tags there:
`<at open_id="ou_x">@name</at>`. Source: open.feishu.cn, "Receive message (v1.0)".
"""

from __future__ import annotations

import re
from typing import Any

from adapters.payload import Json, list_of, object_of, text_of

_AT = re.compile(
    r"""<at\b[^<>]*?(?:open_id|user_id)=["']?([^"'<>\s]*)["']?[^<>]*>(.*?)</at>""", re.DOTALL
)
_CONTENT_KEYS = ("title", "content", "image_key", "file_key", "file_name", "duration")


def is_legacy_message(payload: Json) -> bool:
    """Whether this is a message in the old format."""
    event = object_of(payload.get("event"))
    return "header" not in payload and text_of(event.get("type")) == "message"


def modernised(payload: Json, own_id: str) -> dict[str, Any]:
    """The same message as a 2.0 payload; `own_id` is whom `is_mention` means."""
    event = object_of(payload.get("event"))
    kind = text_of(event.get("msg_type"))
    text, mentions = _mentions(text_of(event.get("text")))
    if event.get("is_mention") is True and all(
        each["id"]["open_id"] != own_id for each in mentions
    ):
        mentions.append(_mention("@_user_0", own_id, ""))
    content: dict[str, Any] = {key: event[key] for key in _CONTENT_KEYS if key in event}
    if kind == "post" and "content" not in content:
        kind, content = _post_as_nodes(text, content, event)
    elif text or kind == "text":
        content["text"] = text
    return {
        "schema": "1.0",
        "header": {
            "event_id": text_of(payload.get("uuid")),
            "event_type": "im.message.receive_v1",
            "app_id": text_of(event.get("app_id")),
            "tenant_key": text_of(event.get("tenant_key")),
            "create_time": _milliseconds(payload.get("ts")),
        },
        "event": {
            "sender": {
                "sender_id": {
                    "open_id": text_of(event.get("open_id")),
                    "user_id": text_of(event.get("employee_id")),
                    "union_id": text_of(event.get("union_id")),
                },
                "sender_type": "user",
            },
            "message": {
                "message_id": text_of(event.get("open_message_id")),
                "chat_id": text_of(event.get("open_chat_id")),
                "chat_type": text_of(event.get("chat_type")),
                "root_id": text_of(event.get("root_id")),
                "parent_id": text_of(event.get("parent_id")),
                "message_type": kind,
                "content": content,
                "mentions": mentions,
            },
        },
    }


def _post_as_nodes(text: str, content: dict[str, Any], event: Json) -> tuple[str, dict[str, Any]]:
    """A 1.0 post comes as HTML-like text and a list of pictures."""
    nodes: list[list[dict[str, str]]] = [[{"tag": "text", "text": text}]]
    nodes += [
        [{"tag": "img", "image_key": key}]
        for key in list_of(event.get("image_keys"))
        if isinstance(key, str)
    ]
    return "post", {"title": content.get("title", ""), "content": nodes}


def _mentions(text: str) -> tuple[str, list[dict[str, Any]]]:
    """The text with placeholders for its tags, and what they mean."""
    mentions: list[dict[str, Any]] = []

    def placeholder(match: re.Match[str]) -> str:
        key = f"@_user_{len(mentions) + 1}"
        mentions.append(_mention(key, match[1], match[2].lstrip("@")))
        return key

    return _AT.sub(placeholder, text), mentions


def _mention(key: str, open_id: str, name: str) -> dict[str, Any]:
    return {"key": key, "id": {"open_id": open_id}, "name": name}


def _milliseconds(seconds: object) -> str:
    try:
        return str(int(float(text_of(seconds)) * 1000))
    except ValueError:
        return ""
