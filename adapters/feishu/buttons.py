"""Buttons below an answer: a choice as an element of a card, and a press of one as its command.

A button stands for a command that its presser could have typed at the same place. Feishu tells who
pressed and in which chat; what else belongs to the place (its topic, whether the chat is a direct
one) comes back with the button, as we wrote it there. Pure: no network.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from adapters.feishu.facts import Facts
from adapters.feishu.references import Asked
from adapters.feishu.words import first_id
from adapters.payload import Json, dump, object_of, parse, text_of
from clawbot.messages import (
    Accepted,
    ChatType,
    Choice,
    Ignored,
    InboundMessage,
    OutboundPart,
    ReplyRoute,
    Sender,
)

PRESSED = "card.action.trigger"
PRESSED_OLD = "card.action.trigger_v1"
"""What a callback of the old kind is called here; it has no type of its own."""

_COMMAND = "clawbot"
_COMMAND_WORDS = re.compile(r"/[a-z]+(?: \S+){0,2}")
_IGNORED = Ignored(reason="card_action")
_TOAST_CHARS = 120


def buttons_of(part: OutboundPart) -> Json | None:
    """The choices below a part as one element of a card, None without any."""
    return _row_of_buttons(part.choices, part.route) if part.choices else None


def _row_of_buttons(choices: Sequence[Choice], route: ReplyRoute) -> Json:
    """JSON 2.0; the row breaks into lines where it must."""
    place: dict[str, Any] = {"chat": route.chat_id}
    if Asked.decode(route.token).is_direct:
        place["direct"] = True
    if route.thread is not None:
        place |= {"thread": route.thread, "anchor": route.reply_to or ""}
    return {
        "tag": "column_set",
        "flex_mode": "flow",
        "columns": [
            {
                "tag": "column",
                "width": "auto",
                "elements": [
                    {
                        "tag": "button",
                        "text": {"tag": "plain_text", "content": choice.label},
                        "behaviors": [
                            {"type": "callback", "value": {_COMMAND: choice.command, **place}}
                        ],
                    }
                ],
            }
            for choice in choices
        ],
    }


def parse_press(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """The command that a press of one of our buttons stands for; all else is Ignored.

    Known again by the press's own token, so that it counts once however often it is told.
    """
    event = object_of(payload.get("event"))
    value, context = _value(event), object_of(event.get("context"))
    command, thread = text_of(value.get(_COMMAND)), text_of(value.get("thread")) or None
    chat_id, message_id = (
        text_of(context.get("open_chat_id")),
        text_of(context.get("open_message_id")),
    )
    person = first_id(event.get("operator"))
    event_id = text_of(object_of(payload.get("header")).get("event_id"))
    once = text_of(event.get("token")) or event_id
    is_ours = bool(_COMMAND_WORDS.fullmatch(command)) and value.get("chat") == chat_id
    if not (is_ours and chat_id and person and once):
        return _IGNORED  # a card that was forwarded to another chat commands nothing there
    is_direct = value.get("direct") is True
    quoted = message_id if facts.quotes and not is_direct else ""
    anchor = text_of(value.get("anchor")) if thread is not None else quoted
    return InboundMessage(
        channel=facts.channel,
        identity=f"press:{hashlib.sha256(once.encode()).hexdigest()[:32]}",
        transport_ids=(event_id,) if event_id else (),
        chat_id=chat_id,
        chat_type=ChatType.DM if is_direct else ChatType.GROUP,
        sender=Sender(id=person, name=facts.users.get(person) or person),
        text=command,
        raw=_raw(payload, event),
        thread=thread,
        mentioned=True,
        command_text=command,
        reply_to=anchor or None,
        reply_token=Asked(message_id=message_id, is_direct=is_direct).encode(),
    )


def old_press(body: Json) -> Json:
    """A callback of the old kind, which is flat, as a payload like the others."""
    names = ("open_id", "user_id", "union_id")
    context = {name: body.get(name) for name in ("open_message_id", "open_chat_id")}
    return {
        "header": {"event_type": PRESSED_OLD},
        "event": {
            "operator": {name: body.get(name) for name in names},
            "token": body.get("token"),
            "action": body.get("action"),
            "context": context,
        },
    }


def pressed_command(payload: Json) -> str:
    """The command that a pressed button stands for, "" for all else."""
    return text_of(_value(object_of(payload.get("event"))).get(_COMMAND))


def answer_to_press(accepted: Accepted) -> Json:
    """What the presser sees at once; others see the reply in the chat."""
    first = accepted.answer.replace("`", "").split("\n")[0]
    if not first:
        return {}
    text = first if len(first) <= _TOAST_CHARS else f"{first[: _TOAST_CHARS - 1]}…"
    kind = "success" if accepted.is_settled else "info"
    return {"toast": {"type": kind, "content": text}}


def _value(event: Json) -> Json:
    value: Any = object_of(event.get("action")).get("value")
    return object_of(parse(value) if isinstance(value, str) else value)


def _raw(payload: Json, event: Json) -> str:
    """The payload for later reading; its tokens could still change the card and are left out."""
    header = {k: v for k, v in object_of(payload.get("header")).items() if k != "token"}
    kept = {key: value for key, value in event.items() if key != "token"}
    return dump({"schema": payload.get("schema"), "header": header, "event": kept})
