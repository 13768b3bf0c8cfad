"""What every Web API method shares: declaration, arguments, Slack's errors, channel look-ups.

Not the methods themselves (`methods_*`), nor how calls arrive (`web_api`).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .blocks import MARKDOWN_LIMIT, fault_in_blocks
from .channel_view import ChannelView
from .workspace import Conversation, Json, Message, Workspace

Token = Literal["bot", "app", "any"]
_JSON_ARGUMENTS = frozenset(
    {"blocks", "attachments", "metadata", "files", "view", "prompts", "chunks"}
)


class SlackError(Exception):
    """`{"ok": false, "error": ...}`, with whatever else Slack puts beside it."""

    def __init__(self, error: str, **extra: Any) -> None:
        super().__init__(error)
        self.error = error
        self.extra = extra


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One Web API method."""

    run: Callable[[ChannelView, Json], Json]
    required: tuple[str, ...] = ()
    scope: str = ""
    token: Token = "bot"


def decode_arguments(raw: Json) -> Json:
    """Turn JSON strings of form and query arguments into values."""
    arguments = dict(raw)
    for name in _JSON_ARGUMENTS & arguments.keys():
        if isinstance(arguments[name], str):
            try:
                arguments[name] = json.loads(arguments[name])
            except json.JSONDecodeError as error:
                wrong = "invalid_blocks_format" if name == "blocks" else "invalid_arguments"
                raise SlackError(wrong) from error
    return arguments


def invalid_arguments(message: str) -> SlackError:
    """The error of a missing or malformed argument."""
    return SlackError("invalid_arguments", response_metadata={"messages": [f"[ERROR] {message}"]})


def flag(arguments: Json, name: str) -> bool:
    """A boolean argument: JSON true, or "1"/"true" in a form."""
    return str(arguments.get(name, "")).lower() in {"1", "true"}


def readable_conversation(workspace: Workspace, arguments: Json) -> Conversation:
    """The conversation of `channel` if the bot may know it."""
    found = workspace.lookup_conversation(str(arguments["channel"]))
    if found is None or (found.kind != "channel" and not workspace.bot_in(found)):
        raise SlackError("channel_not_found")
    return found


def writable_conversation(workspace: Workspace, arguments: Json) -> Conversation:
    """The conversation of `channel` if the bot may post there; a user id opens the DM."""
    wanted = str(arguments["channel"])
    if wanted in workspace.users and wanted != workspace.bot.id:
        return workspace.open_im(wanted)
    found = readable_conversation(workspace, arguments)
    if found.archived:
        raise SlackError("is_archived")
    if not workspace.bot_in(found):
        raise SlackError("not_in_channel")
    return found


def thread_root(conversation: Conversation, thread_ts: str) -> Message:
    """The message that a reply would hang on."""
    seconds, _, fraction = thread_ts.partition(".")
    if not (seconds.isdigit() and fraction.isdigit()):
        raise SlackError(
            "invalid_thread_ts",
            response_metadata={"messages": [f"[ERROR] {thread_ts} is not a valid thread_ts"]},
        )
    root = conversation.find(thread_ts)
    if root is None:
        raise SlackError("thread_not_found")
    if not root.root:  # Slack asks for the parent's ts; a reply's ts is a client's mistake
        raise SlackError("cannot_reply_to_message")
    return root


def own_message(
    workspace: Workspace, conversation: Conversation, ts: str, otherwise: str
) -> Message:
    """A message the bot may change; `otherwise` is the error for other people's."""
    message = conversation.find(ts)
    if message is None:
        raise SlackError("message_not_found")
    if message.bot_id != workspace.bot.bot_id:
        raise SlackError(otherwise)
    return message


def content(arguments: Json) -> tuple[str, list[Json]]:
    """The checked text and blocks of a post or an edit."""
    text = str(arguments.get("text") or "")
    markdown = str(arguments.get("markdown_text") or "")
    blocks = arguments.get("blocks") or []
    if markdown and (text or blocks):
        raise SlackError("markdown_text_conflict")
    if len(markdown) > MARKDOWN_LIMIT:
        raise SlackError("msg_too_long")
    if blocks and (error := fault_in_blocks(blocks)):
        raise SlackError(error)
    if not (text.strip() or markdown.strip() or blocks or arguments.get("attachments")):
        raise SlackError("no_text")
    return markdown or text, blocks


def metadata_of(arguments: Json) -> Json | None:
    """The checked message metadata, if any."""
    metadata = arguments.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or not (
        isinstance(metadata.get("event_type"), str)
        and isinstance(metadata.get("event_payload"), dict)
    ):
        raise SlackError("invalid_metadata_format")
    return metadata


def page(items: list[Json], arguments: Json, *, default: int) -> tuple[list[Json], Json]:
    """One page of a cursored list and its response_metadata."""
    cursor = str(arguments.get("cursor") or "0")
    if not cursor.isdigit():
        raise SlackError("invalid_cursor")
    start, limit = int(cursor), int(arguments.get("limit") or default)
    if not 0 < limit <= 1000:
        raise SlackError("invalid_limit")
    end = start + limit
    following = str(end) if end < len(items) else ""
    return items[start:end], {"next_cursor": following}
