"""The app's manifest asks for what the code uses, and for nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from adapters.slack.facts import SCOPES
from adapters.slack.interactions import ASK_ABOUT

ROOT = Path(__file__).parents[3]
# docs.slack.dev/reference/methods and /reference/events; only what a bot token needs.
SCOPES_OF_METHODS = {
    "apps.connections.open": set(),  # of the app-level token
    "assistant.threads.setStatus": {"chat:write"},
    "assistant.threads.setSuggestedPrompts": {"assistant:write"},
    "auth.test": set(),
    "bots.info": {"users:read"},
    "chat.appendStream": {"chat:write"},
    "chat.postMessage": {"chat:write"},
    "chat.startStream": {"chat:write"},
    "chat.stopStream": {"chat:write"},
    "chat.update": {"chat:write"},
    "conversations.history": {
        "channels:history",
        "groups:history",
        "im:history",
        "mpim:history",
    },
    "conversations.info": {"channels:read", "groups:read"},
    "conversations.replies": {
        "channels:history",
        "groups:history",
        "im:history",
        "mpim:history",
    },
    "files.completeUploadExternal": {"files:write"},
    "files.getUploadURLExternal": {"files:write"},
    "files.info": {"files:read"},
    "reactions.add": {"reactions:write"},
    "reactions.remove": {"reactions:write"},
    "usergroups.list": {"usergroups:read"},
    "users.info": {"users:read"},
    "views.publish": set(),
}
SCOPES_OF_EVENTS = {
    "app_home_opened": set(),
    "app_mention": {"app_mentions:read"},
    "app_uninstalled": set(),
    "assistant_thread_context_changed": {"assistant:write"},
    "assistant_thread_started": {"assistant:write"},
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
    "message.im": {"im:history"},
    "message.mpim": {"mpim:history"},
    "tokens_revoked": set(),
}


@pytest.fixture(scope="module")
def manifest() -> Any:
    text = (ROOT / "config" / "slack-app-manifest.yaml").read_text(encoding="utf-8")
    return YAML(typ="safe", pure=True).load(text)


def source() -> str:
    files = sorted((ROOT / "adapters" / "slack").glob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def methods_called() -> set[str]:
    """The SDK's methods that the code calls, under their names of the Web API."""
    attributes = set(re.findall(r"client\.([a-z]+(?:_[A-Za-z]+)+)\(", source()))
    by_attribute = {name.replace(".", "_"): name for name in SCOPES_OF_METHODS}
    return {by_attribute[attribute] for attribute in attributes}


def test_every_scope_is_used_and_none_is_missing(manifest: Any) -> None:
    used = {"commands"}
    for method in methods_called():
        used |= SCOPES_OF_METHODS[method]
    events = manifest["settings"]["event_subscriptions"]["bot_events"]
    for event in events:
        used |= SCOPES_OF_EVENTS[event]
    assert "url_private" in source()
    used |= {"files:read"}
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == used == SCOPES


def test_all_known_methods_are_called() -> None:
    assert methods_called() == set(SCOPES_OF_METHODS)


def test_the_events_that_the_code_reads_are_subscribed(manifest: Any) -> None:
    assert set(manifest["settings"]["event_subscriptions"]["bot_events"]) == set(SCOPES_OF_EVENTS)


def test_the_surfaces_that_the_code_serves_are_switched_on(manifest: Any) -> None:
    features, settings = manifest["features"], manifest["settings"]
    assert [each["callback_id"] for each in features["shortcuts"]] == [ASK_ABOUT]
    assert features["app_home"]["home_tab_enabled"]
    assert features["app_home"]["messages_tab_enabled"]
    assert "assistant_view" in features
    assert settings["interactivity"]["is_enabled"]
    assert settings["socket_mode_enabled"]
    (command,) = features["slash_commands"]
    assert command["should_escape"], "mentions in slash words arrive as ids"


def test_texts_are_as_short_as_slack_wants(manifest: Any) -> None:
    about = manifest["display_information"]
    assert len(about["name"]) <= 35
    assert len(about["description"]) <= 140
    for shortcut in manifest["features"]["shortcuts"]:
        assert len(shortcut["name"]) <= 24
        assert len(shortcut["description"]) <= 150
