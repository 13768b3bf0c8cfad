"""Feishu payloads for tests, as the platform sends them."""

from __future__ import annotations

import json
from typing import Any

from adapters.feishu.facts import Facts, Identity
from adapters.feishu.inbound import parse_event
from clawbot.messages import Ignored, InboundMessage

BOT = "ou_bot"
FACTS = Facts(
    channel="feishu",
    identity=Identity(open_id=BOT, app_id="cli_1", name="clawbot"),
    users={"ou_alice": "Alice"},
)


def mention(number: int, open_id: str, name: str) -> dict[str, Any]:
    ids = {"open_id": open_id, "union_id": open_id.replace("ou_", "on_"), "user_id": ""}
    return {"key": f"@_user_{number}", "id": ids, "name": name}


ME = mention(1, BOT, "clawbot")
BOB = mention(2, "ou_bob", "Bob")


def payload(kind: str = "text", content: Any = None, **message: Any) -> dict[str, Any]:
    """A message event; `content` is dumped unless it is text."""
    given = {"text": "hi"} if content is None else content
    return {
        "schema": "2.0",
        "header": {
            "event_id": "ev1",
            "event_type": "im.message.receive_v1",
            "create_time": "1717000060000",
            "token": "secret-token",
            "app_id": "cli_1",
        },
        "event": {
            "sender": {
                "sender_id": {"open_id": "ou_alice", "user_id": "", "union_id": "on_alice"},
                "sender_type": "user",
            },
            "message": {
                "message_id": "om_1",
                "chat_id": "oc_1",
                "chat_type": "p2p",
                "create_time": "1717000060000",
                "message_type": kind,
                "content": given if isinstance(given, str) else json.dumps(given),
                **message,
            },
        },
    }


def parsed(kind: str = "text", content: Any = None, **message: Any) -> InboundMessage:
    """The message that comes of it."""
    found = parse_event(payload(kind, content, **message), FACTS)
    assert isinstance(found, InboundMessage), found
    return found


def in_group(text: str, *mentions: dict[str, Any], **message: Any) -> InboundMessage:
    """A text in a group."""
    return parsed("text", {"text": text}, chat_type="group", mentions=list(mentions), **message)


def reason_of(payload: Any, facts: Facts = FACTS) -> str:
    """Why a payload is no message."""
    found = parse_event(payload, facts)
    assert isinstance(found, Ignored), found
    return found.reason
