"""auth, bots, conversations, team and users: what the app reads."""

from .channel_view import ChannelView
from .methods import Method, SlackError, flag, invalid_arguments, page, readable_conversation
from .shapes import conversation_json, user_json
from .workspace import Conversation, Json, Message, Workspace


def auth_test(view: ChannelView, arguments: Json) -> Json:
    """auth.test; with an app-level token it names the app instead of the bot."""
    workspace = view.workspace
    if arguments.get("_token_kind") == "app":
        return {"app_name": workspace.bot.name, "app_id": workspace.app_id}
    return {
        "url": f"https://{workspace.team_domain}.slack.com/",
        "team": workspace.team_name,
        "user": workspace.bot.name,
        "team_id": workspace.team_id,
        "user_id": workspace.bot.id,
        "bot_id": workspace.bot.bot_id,
        "is_enterprise_install": False,
    }


def bots_info(view: ChannelView, arguments: Json) -> Json:
    """bots.info."""
    for user in view.workspace.users.values():
        if user.bot_id and user.bot_id == arguments["bot"]:
            return {
                "bot": {
                    "id": user.bot_id,
                    "deleted": False,
                    "name": user.name,
                    "app_id": user.app_id,
                    "user_id": user.id,
                }
            }
    raise SlackError("bot_not_found")


def team_info(view: ChannelView, arguments: Json) -> Json:
    """team.info."""
    workspace = view.workspace
    return {
        "team": {
            "id": workspace.team_id,
            "name": workspace.team_name,
            "domain": workspace.team_domain,
        }
    }


def users_info(view: ChannelView, arguments: Json) -> Json:
    """users.info."""
    user = view.workspace.users.get(str(arguments["user"]))
    if user is None:
        raise SlackError("user_not_found")
    return {"user": user_json(view.workspace, user)}


def users_list(view: ChannelView, arguments: Json) -> Json:
    """users.list."""
    members = [user_json(view.workspace, user) for user in view.workspace.users.values()]
    members, metadata = page(members, arguments, default=100)
    return {"members": members, "response_metadata": metadata}


def conversations_info(view: ChannelView, arguments: Json) -> Json:
    """conversations.info."""
    conversation = readable_conversation(view.workspace, arguments)
    return {"channel": conversation_json(view.workspace, conversation)}


def conversations_list(view: ChannelView, arguments: Json) -> Json:
    """conversations.list and users.conversations (the bot's)."""
    types = str(arguments.get("types") or "public_channel").split(",")
    names = {"channel": "public_channel", "group": "private_channel", "im": "im", "mpim": "mpim"}
    mine = arguments.get("_method") == "users.conversations"
    found = [
        conversation_json(view.workspace, each)
        for each in view.workspace.conversations.values()
        if names[each.kind] in types
        and (view.workspace.bot_in(each) or (each.kind == "channel" and not mine))
        and not (each.archived and flag(arguments, "exclude_archived"))
    ]
    found, metadata = page(found, arguments, default=100)
    return {"channels": found, "response_metadata": metadata}


def conversations_members(view: ChannelView, arguments: Json) -> Json:
    """conversations.members."""
    conversation = readable_conversation(view.workspace, arguments)
    wrapped = [{"id": member} for member in sorted(conversation.members)]
    wrapped, metadata = page(wrapped, arguments, default=100)
    return {"members": [each["id"] for each in wrapped], "response_metadata": metadata}


def conversations_open(view: ChannelView, arguments: Json) -> Json:
    """conversations.open of a DM or group DM."""
    workspace = view.workspace
    if arguments.get("channel"):
        conversation = readable_conversation(workspace, arguments)
    elif arguments.get("users"):
        conversation = _open_with(workspace, str(arguments["users"]).split(","))
    else:
        raise SlackError("users_list_not_supplied")
    if flag(arguments, "return_im"):
        return {"channel": conversation_json(workspace, conversation)}
    return {"channel": {"id": conversation.id}}


def _open_with(workspace: Workspace, users: list[str]) -> Conversation:
    if any(user not in workspace.users for user in users):
        raise SlackError("user_not_found")
    if len(users) == 1:
        return workspace.open_im(users[0])
    members = {*users, workspace.bot.id}
    for conversation in workspace.conversations.values():
        if conversation.kind == "mpim" and conversation.members == members:
            return conversation
    name = "mpdm-" + "--".join(workspace.users[user].name for user in users) + "-1"
    return workspace.add_conversation("mpim", name=name, members=members)


def conversations_history(view: ChannelView, arguments: Json) -> Json:
    """conversations.history: roots and broadcasts, newest first."""
    conversation = _member_conversation(view, arguments)
    shown = [m for m in conversation.messages if m.root or m.broadcast]
    return _messages(view, arguments, list(reversed(_between(shown, arguments))), default=100)


def conversations_replies(view: ChannelView, arguments: Json) -> Json:
    """conversations.replies: oldest first, root included; a reply's ts gives that reply alone."""
    conversation = _member_conversation(view, arguments)
    ts = str(arguments["ts"])
    root = conversation.find(ts)
    if root is None:
        raise SlackError("thread_not_found")
    replies = conversation.replies(ts) if root.root else []
    return _messages(view, arguments, [root, *_between(replies, arguments)], default=1000)


def _member_conversation(view: ChannelView, arguments: Json) -> Conversation:
    conversation = readable_conversation(view.workspace, arguments)
    if not view.workspace.bot_in(conversation):
        raise SlackError("not_in_channel")
    return conversation


def _between(messages: list[Message], arguments: Json) -> list[Message]:
    oldest = _ts(arguments, "oldest", "0")
    latest = _ts(arguments, "latest", "9999999999.999999")
    if flag(arguments, "inclusive"):
        return [m for m in messages if oldest <= float(m.ts) <= latest]
    return [m for m in messages if oldest < float(m.ts) < latest]


def _ts(arguments: Json, name: str, default: str) -> float:
    value = str(arguments.get(name) or default)
    try:
        return float(value)
    except ValueError as error:
        raise SlackError(f"invalid_ts_{name}") from error


def _messages(view: ChannelView, arguments: Json, messages: list[Message], *, default: int) -> Json:
    with_metadata = flag(arguments, "include_all_metadata")
    shapes = [view.shape(each, metadata=with_metadata) for each in messages]
    shapes, metadata = page(shapes, arguments, default=default)
    answer: Json = {"messages": shapes, "has_more": bool(metadata["next_cursor"])}
    if answer["has_more"]:
        answer["response_metadata"] = metadata
    return answer


def views_publish(view: ChannelView, arguments: Json) -> Json:
    """views.publish: the App Home of one user."""
    if arguments["user_id"] not in view.workspace.users:
        raise invalid_arguments("user not found: user_id")
    published = arguments["view"]
    if not isinstance(published, dict) or published.get("type") != "home":
        raise invalid_arguments("must be a home view: view")
    shape = {**published, "id": view.workspace.new_id("V0"), "team_id": view.workspace.team_id}
    view.workspace.views[arguments["user_id"]] = shape
    view.bell.ring()
    return {"view": shape}


READ_METHODS = {
    "auth.test": Method(run=auth_test, token="any"),
    "bots.info": Method(run=bots_info, required=("bot",), scope="users:read"),
    "team.info": Method(run=team_info, scope="team:read"),
    "users.info": Method(run=users_info, required=("user",), scope="users:read"),
    "users.list": Method(run=users_list, scope="users:read"),
    "users.conversations": Method(run=conversations_list, scope="channels:read"),
    "conversations.info": Method(
        run=conversations_info, required=("channel",), scope="channels:read"
    ),
    "conversations.list": Method(run=conversations_list, scope="channels:read"),
    "conversations.members": Method(
        run=conversations_members, required=("channel",), scope="channels:read"
    ),
    "conversations.open": Method(run=conversations_open, scope="im:write"),
    "conversations.history": Method(
        run=conversations_history, required=("channel",), scope="channels:history"
    ),
    "conversations.replies": Method(
        run=conversations_replies, required=("channel", "ts"), scope="channels:history"
    ),
    "views.publish": Method(run=views_publish, required=("user_id", "view")),
}
