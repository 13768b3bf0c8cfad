"""The Slack section of the config."""

import sys
from subprocess import run
from typing import Any

import pytest
from pydantic import ValidationError

from adapters.slack.config import SlackConfig

SOCKET = {"bot_token": "xoxb-1", "app_token": "xapp-1"}
HTTP = {"mode": "http", "bot_token": "xoxb-1", "signing_secret": "s"}


@pytest.mark.parametrize("keys", [SOCKET, HTTP])
def test_each_mode_needs_only_its_own_secrets(keys: dict[str, Any]) -> None:
    config = SlackConfig(**keys)
    assert config.api_base_url == "https://slack.com/api/"
    assert config.listen_host == "127.0.0.1"
    assert "xoxb-1" not in repr(config)


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({"bot_token": "xoxb-1"}, "app_token: missing"),
        ({"mode": "http", "bot_token": "xoxb-1"}, "signing_secret: missing"),
        (SOCKET | {"app_token": "xoxb-1"}, "set the app-level token"),
        (SOCKET | {"bot_token": "xapp-1"}, "set the bot token"),
        (SOCKET | {"bot_token": " "}, "is empty"),
        (SOCKET | {"token": "x"}, "Extra inputs"),
        (SOCKET | {"mode": "rtm"}, "'socket' or 'http'"),
        (SOCKET | {"api_base_url": "http://slack.example/api"}, "clear text"),
        (SOCKET | {"api_base_url": "slack.com"}, "not an http"),
        (HTTP | {"path": "events"}, "must begin with /"),
        (HTTP | {"listen_port": 70000}, "65535"),
    ],
)
def test_a_wrong_key_says_what_to_set(keys: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValidationError, match=hint):
        SlackConfig(**keys)


def test_a_base_url_gets_its_final_slash() -> None:
    assert SlackConfig(**SOCKET, api_base_url="http://127.0.0.1:1/api").api_base_url.endswith("/")


def test_the_config_does_not_load_the_sdk() -> None:
    code = "import sys, adapters.slack.config; sys.exit('slack_sdk' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
