"""What the methods of the Open API do with messages, reactions, chats and people."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from .api_error import ApiError
from .cards import parse_card
from .shapes import stored
from .tenant import Chat, Json, Message, Reaction, Tenant

MAX_CARD_BYTES = 30 * 1024
MAX_TEXT_BYTES = 150 * 1024
MAX_EDITS = 20
MAX_UUID = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call as a method sees it. `ids`: what stands in the path; `files`: of a form."""

    ids: tuple[str, ...]
    body: Json
    query: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)


Method = Callable[[Tenant, Request], Json]


def create_message(tenant: Tenant, request: Request) -> Json:
    """POST messages."""
    receiver, id_type = str(request.body.get("receive_id")), request.query.get("receive_id_type")
    if id_type == "chat_id":
        chat = tenant.chats.get(receiver)
    elif id_type == "open_id":
        user = tenant.users.get(receiver)
        chat = tenant.dm_of(user) if user is not None else None
    else:
        raise ApiError(230001, "receive_id_type is required")
    if chat is None:
        raise ApiError(230001, "invalid receive_id")
    _check_membership(tenant, chat)
    return _post(tenant, chat, request.body, None)


def reply_message(tenant: Tenant, request: Request) -> Json:
    """POST messages/:id/reply."""
    target = _message(tenant, request.ids[0])
    chat = tenant.chats[target.chat_id]
    _check_membership(tenant, chat)
    return _post(tenant, chat, request.body, target)


def _post(tenant: Tenant, chat: Chat, body: Json, target: Message | None) -> Json:
    uuid, kind = str(body.get("uuid") or ""), str(body.get("msg_type"))
    if len(uuid) > MAX_UUID:
        raise ApiError(230001, "uuid is too long")
    if (before := tenant.message_under(uuid)) is not None:
        return _sent(tenant, before)
    content = body.get("content")
    card_id = _check_content(tenant, kind, content)
    message = tenant.post(chat, tenant.bot, kind, str(content), uuid=uuid, card_id=card_id)
    if card_id:
        tenant.cards[card_id].message_id = message.id
    if target is not None:
        _answer(tenant, chat, message, target, in_thread=body.get("reply_in_thread") is True)
    elif chat.has_topics:
        tenant.thread_of(message)
    if uuid:
        tenant.uuids[uuid] = message.id, tenant.now()
    return _sent(tenant, message)


def _answer(
    tenant: Tenant, chat: Chat, message: Message, target: Message, *, in_thread: bool
) -> None:
    """Say where an answer to a message stands."""
    message.parent_id, message.root_id = target.id, target.root_id or target.id
    root = tenant.messages[message.root_id]
    if chat.has_topics or target is root:
        if chat.has_topics or in_thread or root.thread_id:
            message.thread_id = tenant.thread_of(root)
    elif in_thread:  # anchored on a later message of a topic, it opens a topic of its own
        message.root_id, message.thread_id = target.id, tenant.new_id("omt_")


def _check_membership(tenant: Tenant, chat: Chat) -> None:
    if tenant.bot.open_id not in chat.members:
        raise ApiError(230002)


def _check_content(tenant: Tenant, kind: str, content: object) -> str:
    """Check a content; returns the id of the card that it refers to, if any."""
    if not isinstance(content, str):
        raise ApiError(230001, "content must be a string")
    limit = MAX_TEXT_BYTES if kind == "text" else MAX_CARD_BYTES
    if len(content.encode()) > limit:
        raise ApiError(230025)
    try:
        body = json.loads(content)
    except ValueError as error:
        raise ApiError(230001, "content is not a valid JSON") from error
    match kind:
        case "text" if not isinstance(body.get("text"), str) or not body["text"]:
            raise ApiError(230001, "text is empty")
        case "post" if not _is_post(body):
            raise ApiError(230001, "invalid post")
        case "interactive":
            if body.get("type") == "card":
                card_id = str(body.get("data", {}).get("card_id"))
                if card_id not in tenant.cards:
                    raise ApiError(230099, "Failed to create card content, ext=ErrCode: 200740")
                return card_id
            parse_card(content)
        case "image" | "file" | "audio" | "media":
            _check_upload(tenant, kind, body)
        case "text" | "post":
            pass
        case _:
            raise ApiError(230001, f"unknown msg_type {kind}")
    return ""


UPLOADED_AS = {"image": {"image"}, "audio": {"opus"}, "media": {"mp4"}}


def _check_upload(tenant: Tenant, kind: str, body: Json) -> None:
    """Refuse a key that is none, or that stands for something of another kind."""
    key = body.get("image_key" if kind == "image" else "file_key")
    upload = tenant.uploads.get(str(key))
    if upload is None:
        raise ApiError(230001, f"invalid {kind} key")
    is_wrong = upload.kind == "image" if kind == "file" else upload.kind not in UPLOADED_AS[kind]
    if is_wrong:
        raise ApiError(230055, "The type of file upload does not match the type of message.")


def _is_post(body: object) -> bool:
    if not isinstance(body, dict) or not body:
        return False
    lines = [document.get("content") for document in body.values() if isinstance(document, dict)]
    return bool(lines) and all(isinstance(line, list) and line for line in lines)


def _sent(tenant: Tenant, message: Message) -> Json:
    return {"data": stored(tenant, message)}


def _message(tenant: Tenant, message_id: str) -> Message:
    message = tenant.messages.get(message_id)
    if message is None:
        raise ApiError(230001, "invalid message_id")
    if message.deleted:
        raise ApiError(230011)
    return message


def _own(tenant: Tenant, message_id: str) -> Message:
    message = _message(tenant, message_id)
    if message.sender is not tenant.bot:
        raise ApiError(230027, "the operator is not the sender")
    return message


def update_message(tenant: Tenant, request: Request) -> Json:
    """PUT messages/:id: edit a text or post."""
    message, kind = _own(tenant, request.ids[0]), str(request.body.get("msg_type"))
    if message.kind not in {"text", "post"} or kind not in {"text", "post"}:
        raise ApiError(230054)
    if message.edits >= MAX_EDITS:
        raise ApiError(230072)
    _check_content(tenant, kind, request.body.get("content"))
    message.edits += 1
    message.kind = kind
    tenant.revise(message, request.body["content"])
    return _sent(tenant, message)


def patch_message(tenant: Tenant, request: Request) -> Json:
    """PATCH messages/:id: redraw a card that was not sent by reference."""
    message = _own(tenant, request.ids[0])
    if message.kind != "interactive" or message.card_id:
        raise ApiError(230054)
    parse_card(str(request.body.get("content")))
    message.edits += 1
    tenant.revise(message, request.body["content"])
    return {"data": {}}


def delete_message(tenant: Tenant, request: Request) -> Json:
    """DELETE messages/:id."""
    _own(tenant, request.ids[0]).deleted = True
    return {"data": {}}


def get_message(tenant: Tenant, request: Request) -> Json:
    """GET messages/:id; of a merged forward with all that is in it."""
    message = tenant.messages.get(request.ids[0])
    if message is None:
        raise ApiError(230001, "invalid message_id")
    whole = request.query.get("card_msg_content_type") == "user_card_content"
    inside, found = {message.id}, [message]
    for each in tenant.messages.values():
        if each.upper_id in inside:
            inside.add(each.id)
            found.append(each)
    return {"data": {"items": [stored(tenant, each, whole_cards=whole) for each in found]}}


def list_messages(tenant: Tenant, request: Request) -> Json:
    """GET messages: what stands in a topic, its first message too; or in a chat, of each topic only
    its first message.
    """
    query = request.query
    wanted, size = query.get("container_id"), int(query.get("page_size", "20"))
    if not 0 < size <= 50:
        raise ApiError(230001, "page_size must be between 1 and 50")
    match query.get("container_id_type"):
        case "thread" if "start_time" in query or "end_time" in query:
            raise ApiError(230001, "a topic is not filtered by time")
        case "thread":
            found = [each for each in tenant.messages.values() if each.thread_id == wanted]
        case "chat" if wanted in tenant.chats:
            _check_membership(tenant, tenant.chats[wanted])
            since_ms = int(query.get("start_time", "0")) * 1000
            found = [
                each
                for each in tenant.chats[wanted].messages
                if each.create_ms >= since_ms and (not each.thread_id or not each.root_id)
            ]
        case _:
            raise ApiError(230001, "invalid container")
    found.sort(key=lambda each: each.create_ms, reverse=True)
    begin = int(query.get("page_token") or 0)
    end = begin + size
    data: Json = {
        "items": [stored(tenant, each) for each in found[begin:end]],
        "has_more": len(found) > end,
    }
    return {"data": data | ({"page_token": str(end)} if len(found) > end else {})}


def add_reaction(tenant: Tenant, request: Request) -> Json:
    """POST messages/:id/reactions."""
    message = _message(tenant, request.ids[0])
    emoji = str(request.body.get("reaction_type", {}).get("emoji_type"))
    reaction = Reaction(
        id=tenant.new_id("ZCaCIjUBVVWSrm5L"), emoji=emoji, operator_id=tenant.app_id, by_app=True
    )
    message.reactions[reaction.id] = reaction
    return {"data": _reaction(reaction)}


def delete_reaction(tenant: Tenant, request: Request) -> Json:
    """DELETE messages/:id/reactions/:id."""
    message = _message(tenant, request.ids[0])
    reaction = message.reactions.get(request.ids[1])
    if reaction is None or not reaction.by_app:
        raise ApiError(231003, "reaction not found")
    del message.reactions[reaction.id]
    return {"data": _reaction(reaction)}


def list_reactions(tenant: Tenant, request: Request) -> Json:
    """GET messages/:id/reactions."""
    message = _message(tenant, request.ids[0])
    wanted = request.query.get("reaction_type")
    items = [_reaction(each) for each in message.reactions.values() if wanted in {None, each.emoji}]
    return {"data": {"items": items, "has_more": False}}


def _reaction(reaction: Reaction) -> Json:
    return {
        "reaction_id": reaction.id,
        "operator": {
            "operator_id": reaction.operator_id,
            "operator_type": "app" if reaction.by_app else "user",
        },
        "reaction_type": {"emoji_type": reaction.emoji},
    }


def bot_info(tenant: Tenant, _request: Request) -> Json:
    """GET bot/v3/info; the bot stands beside the code, not under data."""
    return {
        "bot": {"activate_status": 2, "app_name": tenant.bot.name, "open_id": tenant.bot.open_id}
    }


def get_user(tenant: Tenant, request: Request) -> Json:
    """GET contact/v3/users/:id."""
    user = tenant.users.get(request.ids[0])
    if user is None or user.app_id:
        raise ApiError(41050, "no user authority error")
    return {"data": {"user": {"open_id": user.open_id, "name": user.name}}}


def get_chat(tenant: Tenant, request: Request) -> Json:
    """GET chats/:id."""
    chat = tenant.chats.get(request.ids[0])
    if chat is None:
        raise ApiError(232006, "chat not found")
    return {
        "data": {
            "name": chat.name,
            "chat_mode": chat.kind,
            "group_message_type": "thread" if chat.topic_format else "chat",
        }
    }


def get_resource(tenant: Tenant, request: Request) -> Json:
    """GET messages/:id/resources/:key; the answer is bytes, see `open_api`."""
    _message(tenant, request.ids[0])
    if request.ids[1] not in tenant.files:
        raise ApiError(234003, "File not in msg.")
    return {"file": request.ids[1]}
