"""Reactions, assistant threads and files."""

import mimetypes

from .blocks import fault_in_blocks
from .channel_view import ChannelView
from .methods import (
    Method,
    SlackError,
    invalid_arguments,
    readable_conversation,
    thread_root,
    writable_conversation,
)
from .shapes import file_json
from .workspace import File, Json, Message


def reactions_add(view: ChannelView, arguments: Json) -> Json:
    """reactions.add; twice is `already_reacted`."""
    people = _reacted(view, arguments)
    if view.workspace.bot.id in people:
        raise SlackError("already_reacted")
    people.append(view.workspace.bot.id)
    view.bell.ring()
    return {}


def reactions_remove(view: ChannelView, arguments: Json) -> Json:
    """reactions.remove; what is not there is `no_reaction`."""
    people = _reacted(view, arguments)
    if view.workspace.bot.id not in people:
        raise SlackError("no_reaction")
    people.remove(view.workspace.bot.id)
    view.bell.ring()
    return {}


def _reacted(view: ChannelView, arguments: Json) -> list[str]:
    conversation = writable_conversation(view.workspace, arguments)
    message = conversation.find(str(arguments["timestamp"]))
    if message is None:
        raise SlackError("message_not_found")
    name = str(arguments["name"])
    if not name.replace("_", "").replace("-", "").replace("+", "").replace(":", "").isalnum():
        raise SlackError("invalid_name")
    message.reactions = {each: who for each, who in message.reactions.items() if who}
    return message.reactions.setdefault(name.strip(":"), [])


def set_status(view: ChannelView, arguments: Json) -> Json:
    """assistant.threads.setStatus; an empty status clears it."""
    answer = _assistant(view, arguments, "status")
    key = (str(arguments["channel_id"]), str(arguments["thread_ts"]))
    view.workspace.thread_status.pop(key, None)
    if status := str(arguments["status"]):
        view.workspace.thread_status[key] = status
    view.bell.ring()
    return answer


def set_title(view: ChannelView, arguments: Json) -> Json:
    """assistant.threads.setTitle."""
    return _assistant(view, arguments, "title")


def set_suggested_prompts(view: ChannelView, arguments: Json) -> Json:
    """assistant.threads.setSuggestedPrompts; at most four."""
    prompts = arguments["prompts"]
    if not isinstance(prompts, list) or len(prompts) > 4:
        raise invalid_arguments("no more than 4 items allowed: prompts")
    return _assistant(view, arguments, "prompts")


def _assistant(view: ChannelView, arguments: Json, what: str) -> Json:
    place = {**arguments, "channel": arguments["channel_id"]}
    conversation = writable_conversation(view.workspace, place)
    thread_ts = str(arguments.get("thread_ts") or "")
    if thread_ts:
        thread_root(conversation, thread_ts)
    view.workspace.assistant_calls.append(
        {
            "channel": conversation.id,
            "thread_ts": thread_ts,
            "what": what,
            "value": arguments[what],
        }
    )
    view.bell.ring()
    return {}


def files_info(view: ChannelView, arguments: Json) -> Json:
    """files.info."""
    file = view.workspace.files.get(str(arguments["file"]))
    if file is None:
        raise SlackError("file_not_found")
    return {"file": file_json(view.workspace, file, view.base_url)}


def get_upload_url(view: ChannelView, arguments: Json) -> Json:
    """files.getUploadURLExternal: a URL of the simulator itself."""
    workspace = view.workspace
    length = str(arguments["length"])
    if not length.isdigit() or int(length) <= 0:
        raise invalid_arguments("must be greater than 0: length")
    name = str(arguments["filename"])
    file = File(
        id=workspace.new_id("F0"),
        name=name,
        mimetype=mimetypes.guess_type(name)[0] or "application/octet-stream",
        user=workspace.bot.id,
        created=int(workspace.now()),
        size=int(length),
    )
    workspace.files[file.id] = file
    return {"upload_url": f"{view.base_url}/upload/v1/{file.id}", "file_id": file.id}


def complete_upload(view: ChannelView, arguments: Json) -> Json:
    """files.completeUploadExternal: the files appear, in a message when a channel is named."""
    workspace = view.workspace
    wanted = arguments["files"]
    if not isinstance(wanted, list) or not wanted:
        raise invalid_arguments("must be a non-empty array: files")
    blocks = arguments.get("blocks") or []
    if any(block.get("type") == "markdown" for block in blocks):
        raise SlackError("internal_error")  # slackapi/python-slack-sdk issue 1756
    files: list[File] = []
    for each in wanted:
        file = workspace.files.get(str(each.get("id")))
        if file is None or file.content is None:
            raise SlackError("file_not_found")
        file.title = str(each.get("title") or file.name)
        files.append(file)
    channels = str(arguments.get("channels") or arguments.get("channel_id") or "")
    if arguments.get("thread_ts") and "," in channels:
        raise invalid_arguments("one channel only with: thread_ts")
    for channel in filter(None, channels.split(",")):
        _share(view, {**arguments, "channel": channel}, files)
    return {"files": [file_json(workspace, file, view.base_url) for file in files]}


def _share(view: ChannelView, arguments: Json, files: list[File]) -> None:
    conversation = writable_conversation(view.workspace, arguments)
    thread_ts = arguments.get("thread_ts") or None
    if thread_ts is not None:
        thread_root(conversation, str(thread_ts))
    blocks = arguments.get("blocks") or []
    if blocks and (error := fault_in_blocks(blocks)):
        raise SlackError(error)
    for file in files:
        file.shared_in.append(conversation.id)
    view.post(
        Message(
            channel=conversation.id,
            ts=view.workspace.next_ts(),
            user=view.workspace.bot.id,
            bot_id=view.workspace.bot.bot_id,
            subtype="file_share",
            text=str(arguments.get("initial_comment") or ""),
            blocks=blocks,
            thread_ts=thread_ts,
            files=list(files),
        )
    )


def reactions_get(view: ChannelView, arguments: Json) -> Json:
    """reactions.get of a message."""
    conversation = readable_conversation(view.workspace, arguments)
    message = conversation.find(str(arguments["timestamp"]))
    if message is None:
        raise SlackError("message_not_found")
    return {"type": "message", "channel": conversation.id, "message": view.shape(message)}


_REACTION = ("channel", "name", "timestamp")
_THREAD = ("channel_id", "thread_ts")
EXTRA_METHODS = {
    "reactions.add": Method(run=reactions_add, required=_REACTION, scope="reactions:write"),
    "reactions.remove": Method(run=reactions_remove, required=_REACTION, scope="reactions:write"),
    "reactions.get": Method(
        run=reactions_get, required=("channel", "timestamp"), scope="reactions:read"
    ),
    "assistant.threads.setStatus": Method(
        run=set_status, required=(*_THREAD, "status"), scope="chat:write"
    ),
    "assistant.threads.setTitle": Method(
        run=set_title, required=(*_THREAD, "title"), scope="assistant:write"
    ),
    "assistant.threads.setSuggestedPrompts": Method(
        run=set_suggested_prompts, required=("channel_id", "prompts"), scope="assistant:write"
    ),
    "files.info": Method(run=files_info, required=("file",), scope="files:read"),
    "files.getUploadURLExternal": Method(
        run=get_upload_url, required=("filename", "length"), scope="files:write"
    ),
    "files.completeUploadExternal": Method(
        run=complete_upload, required=("files",), scope="files:write"
    ),
}
