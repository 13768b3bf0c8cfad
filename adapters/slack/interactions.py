"""What people do with the app's own surfaces, read as messages: buttons and shortcuts. Pure.

A button stands for a command that its presser could have typed at the same place, so that nothing
is trusted of it but who pressed it and where; that, Slack has signed.
"""

from __future__ import annotations

import re

from adapters.payload import Json, dump, object_of, objects_of, text_of
from adapters.slack.blocks import read_blocks
from adapters.slack.facts import SLASH_TOKEN, Facts
from adapters.slack.outbound import COMMAND_ACTION
from adapters.slack.references import Asked
from adapters.slack.words import Passage, passages_of, read
from clawbot.messages import ChatType, Ignored, InboundMessage, Sender

ASK_ABOUT = "ask_about_this"
"""The callback id of the message shortcut; it stands in the app's manifest."""

_COMMAND = re.compile(r"/[a-z]+(?: \S+){0,2}")
_ASKING = ("Explain this message, or answer what it asks:", "请解释这条消息，或回答其中的问题：")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_IGNORED = Ignored(reason="interactive")


def parse_interaction(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """A press of one of our buttons, or our shortcut on a message; everything else is Ignored."""
    kind = text_of(payload.get("type"))
    if kind == "block_actions":
        return _parse_press(payload, facts)
    if kind == "message_action" and payload.get("callback_id") == ASK_ABOUT:
        return _parse_shortcut(payload, facts)
    return _IGNORED


def raw_of(payload: Json) -> str:
    """The payload for later reading; Slack's verification token is a secret and left out."""
    return dump({key: value for key, value in payload.items() if key != "token"})


def _parse_press(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """The reply stands where the buttons stand; at a chat's root it is a root message too."""
    actions = objects_of(payload.get("actions"))
    action = actions[0] if len(actions) == 1 else {}
    command, pressed_at = text_of(action.get("value")), text_of(action.get("action_ts"))
    chat_id, sender = _where_and_who(payload, facts)
    message = object_of(payload.get("message"))
    is_ours = text_of(action.get("action_id")).startswith(f"{COMMAND_ACTION}:")
    if not is_ours or not _COMMAND.fullmatch(command) or not chat_id or not pressed_at:
        return _IGNORED
    thread = text_of(message.get("thread_ts")) or None
    is_dm = chat_id.startswith("D")
    return InboundMessage(
        channel=facts.channel,
        identity=f"press:{chat_id}:{pressed_at}:{sender.id}",
        chat_id=chat_id,
        chat_type=ChatType.DM if is_dm else ChatType.GROUP,
        sender=sender,
        text=command,
        raw=raw_of(payload),
        thread=thread,
        mentioned=True,
        command_text=command,
        reply_token=SLASH_TOKEN if thread is None else _asked(payload, sender),
    )


def _parse_shortcut(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """A question about a message, asked in that message's thread."""
    message = object_of(payload.get("message"))
    chat_id, sender = _where_and_who(payload, facts)
    ts = text_of(message.get("ts")) or text_of(payload.get("message_ts"))
    once = text_of(payload.get("trigger_id")) or text_of(payload.get("action_ts"))
    passages = read_blocks(message.get("blocks")) or passages_of(text_of(message.get("text")))
    about = read([Passage(source=each.source, quoted=True) for each in passages], facts)
    if not chat_id or not ts or not once or not sender.id or not about.text:
        return _IGNORED
    author = text_of(message.get("user"))
    name = facts.users.get(author) or author
    quote = "\n".join(f"> {line}" for line in about.text.split("\n"))
    asking = _ASKING[1 if _CJK.search(about.text) else 0]
    by = f"> — @{name}" if name else ""
    return InboundMessage(
        channel=facts.channel,
        identity=f"shortcut:{once}",
        chat_id=chat_id,
        chat_type=ChatType.DM if chat_id.startswith("D") else ChatType.GROUP,
        sender=sender,
        text="\n".join(part for part in (asking, quote, by) if part),
        raw=raw_of(payload),
        thread=text_of(message.get("thread_ts")) or ts,
        mentioned=True,
        reply_token=_asked(payload, sender),
        is_incomplete=not about.is_complete or bool(author and author not in facts.users),
    )


def _where_and_who(payload: Json, facts: Facts) -> tuple[str, Sender]:
    user = object_of(payload.get("user"))
    user_id = text_of(user.get("id"))
    names = (facts.users.get(user_id, ""), text_of(user.get("name")), user_id)
    name = next((each for each in names if each), "")
    return text_of(object_of(payload.get("channel")).get("id")), Sender(id=user_id, name=name)


def _asked(payload: Json, sender: Sender) -> str:
    team = text_of(object_of(payload.get("user")).get("team_id"))
    team = team or text_of(object_of(payload.get("team")).get("id"))
    return Asked(user_id=sender.id, team_id=team).encode()
