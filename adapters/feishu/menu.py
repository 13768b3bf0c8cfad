"""The bot's menu in a direct chat, and how the direct chat of a person becomes known. Pure.

A press in the menu tells who pressed what, and not in which chat: that the event says which comes
when a person opens the chat, and every direct message.
"""

from __future__ import annotations

import re

from adapters.feishu.facts import Facts
from adapters.feishu.references import Asked
from adapters.feishu.words import first_id
from adapters.payload import Json, dump, number_of, object_of, text_of
from clawbot.messages import ChatType, Ignored, InboundMessage, Sender

MENU = "application.bot.menu_v6"
_ENTERED = "im.chat.access_event.bot_p2p_chat_entered_v1"
_COMMAND = re.compile(r"/\S.*", re.DOTALL)


def direct_chat_of(payload: Json) -> tuple[str, str] | None:
    """The person and the direct chat that a payload tells of, if it does."""
    event = object_of(payload.get("event"))
    message = object_of(event.get("message"))
    if message.get("chat_type") in {"p2p", "private"}:
        person = first_id(object_of(event.get("sender")).get("sender_id"))
        chat_id = text_of(message.get("chat_id"))
    elif object_of(payload.get("header")).get("event_type") == _ENTERED:
        person, chat_id = first_id(event.get("operator_id")), text_of(event.get("chat_id"))
    else:
        return None
    return (person, chat_id) if person and chat_id else None


def parse_menu(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """A press in the menu as the words that the config names for it, said in the direct chat."""
    event, header = object_of(payload.get("event")), object_of(payload.get("header"))
    operator = object_of(event.get("operator"))
    person = first_id(operator.get("operator_id"))
    words = facts.menu.get(text_of(event.get("event_key")), "").strip()
    event_id = text_of(header.get("event_id"))
    if not words or not person or not event_id:
        return Ignored(reason="menu")
    chat_id = facts.direct_chats.get(person)
    if chat_id is None:
        return Ignored(reason="menu_without_chat")
    known = text_of(operator.get("operator_name")) or facts.users.get(person)
    kept = {key: value for key, value in header.items() if key != "token"}
    return InboundMessage(
        channel=facts.channel,
        identity=f"menu:{event_id}",
        transport_ids=(event_id,),
        chat_id=chat_id,
        chat_type=ChatType.DM,
        sender=Sender(id=person, name=known or person),
        text=words,
        raw=dump({"schema": payload.get("schema"), "header": kept, "event": event}),
        mentioned=True,
        command_text=words if _COMMAND.fullmatch(words) else None,
        reply_token=Asked(message_id="", is_direct=True).encode(),
        sent_at_ms=number_of(header.get("create_time")),
    )
