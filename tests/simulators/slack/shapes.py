"""Slack's JSON objects made from the workspace's state: messages, events, users, channels, files.

Pure functions; shapes follow docs.slack.dev and recorded events.
"""

from .workspace import Conversation, File, Json, Message, User, Workspace


def user_json(workspace: Workspace, user: User) -> Json:
    """As users.info shows a user."""
    return {
        "id": user.id,
        "team_id": workspace.team_id,
        "name": user.name,
        "deleted": False,
        "real_name": user.real_name,
        "tz": "Europe/Amsterdam",
        "tz_offset": 3600,
        "is_bot": bool(user.bot_id),
        "is_app_user": False,
        "is_restricted": False,
        "is_ultra_restricted": False,
        "profile": {
            "real_name": user.real_name,
            "display_name": "" if user.bot_id else user.name,
            "team": workspace.team_id,
            **({"bot_id": user.bot_id, "api_app_id": user.app_id} if user.bot_id else {}),
        },
    }


def conversation_json(workspace: Workspace, conversation: Conversation) -> Json:
    """As conversations.info shows a conversation."""
    kind = conversation.kind
    shape: Json = {
        "id": conversation.id,
        "created": conversation.created,
        "is_archived": conversation.archived,
        "is_im": kind == "im",
        "is_org_shared": False,
        "context_team_id": workspace.team_id,
    }
    if kind == "im":
        others = sorted(conversation.members - {workspace.bot.id})
        shape["user"] = others[0] if others else workspace.bot.id
        return shape
    shape |= {
        "name": conversation.name,
        "name_normalized": conversation.name,
        "is_channel": kind == "channel",
        "is_group": kind == "group",
        "is_mpim": kind == "mpim",
        "is_private": kind != "channel",
        "is_member": workspace.bot_in(conversation),
        "is_general": conversation.name == "general",
        "is_shared": False,
        "is_ext_shared": False,
        "num_members": len(conversation.members),
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0},
    }
    return shape


def file_json(workspace: Workspace, file: File, files_url: str) -> Json:
    """As messages and files.info show a file; the private URLs point at the simulator."""
    path = f"{workspace.team_id}-{file.id}"
    return {
        "id": file.id,
        "created": file.created,
        "timestamp": file.created,
        "name": file.name,
        "title": file.title or file.name,
        "mimetype": file.mimetype,
        "filetype": file.name.rpartition(".")[2],
        "pretty_type": file.name.rpartition(".")[2].upper(),
        "user": file.user,
        "user_team": workspace.team_id,
        "editable": False,
        "size": file.size,
        "mode": "hosted",
        "is_external": False,
        "external_type": "",
        "is_public": True,
        "public_url_shared": False,
        "display_as_bot": False,
        "username": "",
        "url_private": f"{files_url}/files-pri/{path}/{file.name}",
        "url_private_download": f"{files_url}/files-pri/{path}/download/{file.name}",
        "permalink": f"https://{workspace.team_domain}.slack.com/files/{file.user}/{file.id}/",
        "has_rich_preview": False,
    }


def bot_profile(workspace: Workspace, user: User) -> Json:
    """The bot_profile that stands beside bot_id in messages."""
    return {
        "id": user.bot_id,
        "deleted": False,
        "name": user.name,
        "updated": 1700000000,
        "app_id": user.app_id,
        "icons": {},
        "team_id": workspace.team_id,
    }


def message_json(
    workspace: Workspace, message: Message, *, files_url: str, metadata: bool = False
) -> Json:
    """As history shows a message; thread roots carry their reply counts."""
    shape: Json = {"type": "message", "ts": message.ts, "text": message.text}
    if message.user is not None:
        shape["user"] = message.user
    if message.subtype != "bot_message":
        shape["team"] = workspace.team_id
    if message.bot_id:
        shape["bot_id"] = message.bot_id
        user = workspace.users.get(message.user or "")
        if user is not None and user.bot_id:
            shape |= {"app_id": user.app_id, "bot_profile": bot_profile(workspace, user)}
    optional = {
        "subtype": message.subtype,
        "client_msg_id": message.client_msg_id,
        "username": message.username,
        "blocks": message.blocks,
        "attachments": message.attachments,
        "edited": message.edited,
        "files": [file_json(workspace, each, files_url) for each in message.files],
        "reactions": [
            {"name": name, "users": list(users), "count": len(users)}
            for name, users in message.reactions.items()
        ],
        "metadata": message.metadata if metadata else None,
    }
    shape |= {key: value for key, value in optional.items() if value}
    if message.thread_ts:
        shape["thread_ts"] = message.thread_ts
    conversation = workspace.conversations[message.channel]
    if message.root and (replies := conversation.replies(message.ts)):
        people = list(dict.fromkeys(each.user for each in replies if each.user))
        shape |= {
            "thread_ts": message.ts,
            "reply_count": len(replies),
            "reply_users_count": len(people),
            "latest_reply": replies[-1].ts,
            "reply_users": people,
            "is_locked": False,
        }
    elif not message.root and (parent := conversation.find(message.thread_ts or "")):
        shape["parent_user_id"] = parent.user
    return shape


def message_event(workspace: Workspace, message: Message, *, files_url: str) -> Json:
    """The `message` event of a new post."""
    conversation = workspace.conversations[message.channel]
    event = message_json(workspace, message, files_url=files_url, metadata=True)
    event |= {
        "channel": message.channel,
        "event_ts": message.ts,
        "channel_type": conversation.kind,
    }
    if message.files:
        event |= {"upload": False, "display_as_bot": False}
    if message.broadcast and (parent := conversation.find(message.thread_ts or "")):
        event["root"] = message_json(workspace, parent, files_url=files_url)
        event.pop("parent_user_id", None)
    return event


def mention_event(workspace: Workspace, message: Message, *, files_url: str) -> Json:
    """The `app_mention` event of the same post: no channel_type, no subtype."""
    event = message_event(workspace, message, files_url=files_url)
    event["type"] = "app_mention"
    for absent in ("channel_type", "subtype", "root"):
        event.pop(absent, None)
    return event


def changed_event(
    workspace: Workspace, message: Message, previous: Json, *, files_url: str
) -> Json:
    """The `message_changed` event of an edit."""
    ts = workspace.next_ts()
    return {
        "type": "message",
        "subtype": "message_changed",
        "hidden": True,
        "channel": message.channel,
        "channel_type": workspace.conversations[message.channel].kind,
        "message": message_json(workspace, message, files_url=files_url, metadata=True),
        "previous_message": previous,
        "ts": ts,
        "event_ts": ts,
    }


def deleted_event(workspace: Workspace, message: Message, previous: Json) -> Json:
    """The `message_deleted` event."""
    ts = workspace.next_ts()
    return {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "channel": message.channel,
        "channel_type": workspace.conversations[message.channel].kind,
        "deleted_ts": message.ts,
        "previous_message": previous,
        "ts": ts,
        "event_ts": ts,
    }
