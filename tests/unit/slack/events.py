"""Slack payloads as small as a test needs them."""

from typing import Any

from adapters.slack.facts import Facts, Identity

BOT, BOT_ID = "U0BOT0001", "B0BOT0001"
FACTS = Facts(
    channel="slack",
    identity=Identity(
        user_ids=frozenset({BOT}),
        bot_ids=frozenset({BOT_ID}),
        app_id="A1",
        team_ids=frozenset({"T1"}),
        name="clawbot",
    ),
    users={"U1": "alice", "U2": "bob"},
    channels={"C1": "general"},
    groups={"S1": "ops"},
)


def callback(event: dict[str, Any], **outer: Any) -> dict[str, Any]:
    """The Events API payload around an event."""
    payload = {
        "token": "verification",
        "team_id": "T1",
        "api_app_id": "A1",
        "type": "event_callback",
        "event_id": "Ev1",
        "event": event,
    }
    return payload | outer


def post(text: str = "", **fields: Any) -> dict[str, Any]:
    """A message of alice in #general."""
    event = {
        "type": "message",
        "channel": "C1",
        "channel_type": "channel",
        "user": "U1",
        "ts": "1700000000.000100",
        "text": text,
    }
    return callback({key: value for key, value in (event | fields).items() if value is not None})


def dm(text: str = "", **fields: Any) -> dict[str, Any]:
    """A direct message of alice."""
    return post(text, **({"channel": "D1", "channel_type": "im"} | fields))


def mention(text: str, **fields: Any) -> dict[str, Any]:
    """The app_mention copy of a post: it has no channel_type."""
    return post(text, **({"type": "app_mention", "channel_type": None} | fields))


def slash(words: str, **fields: Any) -> dict[str, Any]:
    """A slash command as its form reads."""
    form = {
        "command": "/clawbot",
        "text": words,
        "channel_id": "C1",
        "user_id": "U1",
        "user_name": "alice",
        "team_id": "T1",
        "api_app_id": "A1",
        "trigger_id": "13.37.abc",
        "response_url": "https://hooks.example/commands/1",
    }
    return form | fields


def rich(*elements: dict[str, Any]) -> list[dict[str, Any]]:
    """A rich_text block."""
    return [{"type": "rich_text", "elements": list(elements)}]


def section(*inline: dict[str, Any]) -> dict[str, Any]:
    """A rich_text_section."""
    return {"type": "rich_text_section", "elements": list(inline)}


def words(text: str, **style: bool) -> dict[str, Any]:
    """An inline text element."""
    return {"type": "text", "text": text} | ({"style": style} if style else {})


def user(user_id: str) -> dict[str, Any]:
    """An inline mention."""
    return {"type": "user", "user_id": user_id}
