"""chat.*: posting, editing, deleting and streaming by the app's bot."""

import time

from .blocks import MARKDOWN_LIMIT, TEXT_LIMIT, UPDATE_TEXT_LIMIT
from .channel_view import ChannelView
from .methods import (
    Method,
    SlackError,
    content,
    flag,
    metadata_of,
    own_message,
    readable_conversation,
    thread_root,
    writable_conversation,
)
from .workspace import Json, Message


def post_message(view: ChannelView, arguments: Json) -> Json:
    """chat.postMessage; text over the limit is cut with a warning."""
    workspace = view.workspace
    conversation = writable_conversation(workspace, arguments)
    text, blocks = content(arguments)
    thread_ts = arguments.get("thread_ts") or None
    if thread_ts is not None:
        thread_root(conversation, str(thread_ts))
    message = Message(
        channel=conversation.id,
        ts=workspace.next_ts(),
        user=workspace.bot.id,
        bot_id=workspace.bot.bot_id,
        text=text[:TEXT_LIMIT],
        blocks=blocks,
        attachments=arguments.get("attachments") or [],
        metadata=metadata_of(arguments),
        thread_ts=thread_ts,
        username=str(arguments.get("username") or ""),
    )
    if thread_ts is not None and flag(arguments, "reply_broadcast"):
        message.broadcast, message.subtype = True, "thread_broadcast"
    view.post(message)
    answer: Json = {
        "channel": message.channel,
        "ts": message.ts,
        "message": view.shape(message, metadata=True),
    }
    if len(text) > TEXT_LIMIT:
        answer |= {
            "warning": "message_truncated",
            "response_metadata": {"warnings": ["message_truncated"]},
        }
    return answer


def post_ephemeral(view: ChannelView, arguments: Json) -> Json:
    """chat.postEphemeral; seen by one member, not stored in the channel."""
    workspace = view.workspace
    conversation = writable_conversation(workspace, arguments)
    text, blocks = content(arguments)
    if arguments["user"] not in conversation.members:
        raise SlackError("user_not_in_channel")
    message = Message(
        channel=conversation.id,
        ts=workspace.next_ts(),
        user=workspace.bot.id,
        bot_id=workspace.bot.bot_id,
        text=text,
        blocks=blocks,
        thread_ts=arguments.get("thread_ts") or None,
        ephemeral_to=str(arguments["user"]),
    )
    workspace.ephemerals.append(message)
    view.bell.ring()
    return {"message_ts": message.ts}


def update(view: ChannelView, arguments: Json) -> Json:
    """chat.update; absent blocks stay as they were, an empty list removes them."""
    workspace = view.workspace
    conversation = writable_conversation(workspace, arguments)
    message = own_message(workspace, conversation, str(arguments["ts"]), "cant_update_message")
    if message.streaming:
        raise SlackError("streaming_state_conflict")
    text, blocks = content(arguments)
    if not arguments.get("markdown_text") and len(text) > UPDATE_TEXT_LIMIT:
        raise SlackError("msg_too_long")
    if "metadata" in arguments:
        message.metadata = metadata_of(arguments)
    view.edit(
        message,
        text,
        by=workspace.bot.id,
        blocks=blocks if "blocks" in arguments else None,
    )
    return {
        "channel": message.channel,
        "ts": message.ts,
        "text": message.text,
        "message": view.shape(message, metadata=True),
    }


def delete(view: ChannelView, arguments: Json) -> Json:
    """chat.delete of a message of the bot's own."""
    conversation = readable_conversation(view.workspace, arguments)
    message = own_message(view.workspace, conversation, str(arguments["ts"]), "cant_delete_message")
    if message.streaming:
        raise SlackError("cant_delete_message")
    view.delete(message)
    return {"channel": message.channel, "ts": message.ts}


def permalink(view: ChannelView, arguments: Json) -> Json:
    """chat.getPermalink."""
    conversation = readable_conversation(view.workspace, arguments)
    ts = str(arguments["message_ts"])
    if conversation.find(ts) is None:
        raise SlackError("message_not_found")
    host = f"https://{view.workspace.team_domain}.slack.com"
    link = f"{host}/archives/{conversation.id}/p{ts.replace('.', '')}"
    return {"channel": conversation.id, "permalink": link}


def start_stream(view: ChannelView, arguments: Json) -> Json:
    """chat.startStream; always a reply, outside DMs with its recipient."""
    workspace = view.workspace
    conversation = writable_conversation(workspace, arguments)
    thread_root(conversation, str(arguments["thread_ts"]))
    if conversation.kind != "im":
        for name in ("recipient_user_id", "recipient_team_id"):
            if not arguments.get(name):
                raise SlackError(f"missing_{name}")
    message = Message(
        channel=conversation.id,
        ts=workspace.next_ts(),
        user=workspace.bot.id,
        bot_id=workspace.bot.bot_id,
        text=_streamed_text(arguments),
        thread_ts=str(arguments["thread_ts"]),
        streaming=True,
        streamed_at=time.monotonic(),
    )
    view.post(message)
    return {"channel": conversation.id, "ts": message.ts}


def append_stream(view: ChannelView, arguments: Json) -> Json:
    """chat.appendStream; not idempotent: the same text twice stands there twice."""
    message = _open_stream(view, arguments)
    text = _streamed_text(arguments)
    if not text and not arguments.get("chunks"):
        raise SlackError("no_text")
    _grow(view, message, text)
    return {"channel": message.channel, "ts": message.ts}


def stop_stream(view: ChannelView, arguments: Json) -> Json:
    """chat.stopStream, with last text, blocks and metadata."""
    message = _open_stream(view, arguments)
    previous = view.shape(message)
    _grow(view, message, _streamed_text(arguments))
    message.streaming = False
    if "blocks" in arguments:
        message.blocks = content({**arguments, "text": "", "markdown_text": ""})[1]
    if "metadata" in arguments:
        message.metadata = metadata_of(arguments)
    view.changed(message, previous)
    shape = view.shape(message, metadata=True)
    return {"channel": message.channel, "ts": message.ts, "message": shape}


def _open_stream(view: ChannelView, arguments: Json) -> Message:
    conversation = writable_conversation(view.workspace, arguments)
    message = own_message(
        view.workspace, conversation, str(arguments["ts"]), "message_not_owned_by_app"
    )
    if not message.streaming:
        raise SlackError("message_not_in_streaming_state")
    return message


def _grow(view: ChannelView, message: Message, text: str) -> None:
    message.streamed_at = time.monotonic()
    if text:
        view.workspace.revise(message, message.text + text, by=view.workspace.bot.id, mark=False)
    view.bell.ring()


def _streamed_text(arguments: Json) -> str:
    markdown, chunks = arguments.get("markdown_text"), arguments.get("chunks")
    if markdown and chunks:
        raise SlackError("cannot_provide_both_markdown_text_and_chunks")
    if chunks is not None and not (
        isinstance(chunks, list) and all(isinstance(each, dict) for each in chunks)
    ):
        raise SlackError("invalid_chunks")
    texts = [c.get("text", "") for c in chunks or [] if c.get("type") == "markdown_text"]
    text = str(markdown or "".join(texts))
    if len(text) > MARKDOWN_LIMIT:
        raise SlackError("msg_too_long")
    return text


CHAT_METHODS = {
    "chat.postMessage": Method(run=post_message, required=("channel",), scope="chat:write"),
    "chat.postEphemeral": Method(
        run=post_ephemeral, required=("channel", "user"), scope="chat:write"
    ),
    "chat.update": Method(run=update, required=("channel", "ts"), scope="chat:write"),
    "chat.delete": Method(run=delete, required=("channel", "ts"), scope="chat:write"),
    "chat.getPermalink": Method(run=permalink, required=("channel", "message_ts")),
    "chat.startStream": Method(
        run=start_stream, required=("channel", "thread_ts"), scope="chat:write"
    ),
    "chat.appendStream": Method(run=append_stream, required=("channel", "ts"), scope="chat:write"),
    "chat.stopStream": Method(run=stop_stream, required=("channel", "ts"), scope="chat:write"),
}
