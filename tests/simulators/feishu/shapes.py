"""What Feishu's JSON looks like: event envelopes, messages in events and in API answers."""

import json
import uuid
from typing import Any

from .tenant import Chat, Json, Message, Tenant, User

DEGRADED = "请升级至最新版本客户端，以查看内容"


def envelope(tenant: Tenant, token: str, event_type: str, event: Json) -> Json:
    """A 2.0 event."""
    return {
        "schema": "2.0",
        "header": {
            "event_id": uuid.uuid4().hex,
            "event_type": event_type,
            "create_time": str(int(tenant.now() * 1000)),
            "token": token,
            "app_id": tenant.app_id,
            "tenant_key": tenant.tenant_key,
        },
        "event": event,
    }


def received(tenant: Tenant, chat: Chat, message: Message) -> Json:
    """The event of a message; empty ids are left out, as Feishu does."""
    declared = chat.declared_type or ("p2p" if chat.kind == "p2p" else "group")
    content = message.content
    if message.kind == "interactive":
        content = _dump({"title": None, "elements": [[{"tag": "text", "text": DEGRADED}]]})
    shape: Json = {
        "message_id": message.id,
        "root_id": message.root_id,
        "parent_id": message.parent_id,
        "thread_id": message.thread_id,
        "create_time": str(message.create_ms),
        "update_time": str(message.create_ms),
        "chat_id": chat.id,
        "chat_type": declared,
        "message_type": message.kind,
        "content": content,
        "mentions": message.mentions,
        "user_agent": "Mozilla/5.0",
    }
    sender = {
        "sender_id": message.sender.ids,
        "sender_type": "app" if message.sender.app_id else "user",
        "tenant_key": tenant.tenant_key,
    }
    return {"sender": sender, "message": {key: value for key, value in shape.items() if value}}


def mention(number: int, user: User, tenant_key: str) -> Json:
    """One entry of `mentions` in an event."""
    return {
        "key": f"@_user_{number}",
        "id": user.ids,
        "name": user.name,
        "mentioned_type": "bot" if user.app_id else "user",
        "tenant_key": tenant_key,
    }


def stored(tenant: Tenant, message: Message, *, whole_cards: bool = False) -> Json:
    """A message in an API answer; ids are texts there, and an app is known by its app id."""
    content = message.content
    if message.kind == "interactive" and not whole_cards:
        content = _dump({"title": None, "elements": [[{"tag": "text", "text": DEGRADED}]]})
    elif message.kind == "interactive" and message.card_id:
        content = _dump({"user_dsl": _dump(tenant.cards[message.card_id].content)})
    elif message.kind == "file" and message.sender is tenant.bot:
        key = json.loads(content)["file_key"]
        content = _dump({"file_key": key, "file_name": tenant.uploads[key].name})
    is_app = bool(message.sender.app_id)
    shape: Json = {
        "message_id": message.id,
        "root_id": message.root_id,
        "parent_id": message.parent_id,
        "thread_id": message.thread_id,
        "upper_message_id": message.upper_id,
        "msg_type": message.kind,
        "create_time": str(message.create_ms),
        "update_time": str(message.create_ms),
        "deleted": message.deleted,
        "updated": message.edits > 0,
        "chat_id": message.chat_id,
        "sender": {
            "id": message.sender.app_id if is_app else message.sender.open_id,
            "id_type": "app_id" if is_app else "open_id",
            "sender_type": "app" if is_app else "user",
            "tenant_key": tenant.tenant_key,
        },
        "body": {"content": "" if message.deleted else content},
        "mentions": [
            {**each, "id": each["id"]["open_id"], "id_type": "open_id"} for each in message.mentions
        ],
    }
    kept = {"deleted", "updated", "body", "sender"}
    return {key: value for key, value in shape.items() if value or key in kept}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
