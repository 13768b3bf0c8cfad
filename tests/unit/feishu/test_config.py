"""The Feishu keys: what is refused, and with which advice."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from adapters.feishu.config import FeishuConfig

KEYS = {"app_id": "cli_1", "app_secret": "secret"}


def config(**keys: Any) -> FeishuConfig:
    return FeishuConfig(**(KEYS | keys))


@pytest.mark.parametrize(
    ("domain", "url"),
    [
        ("feishu", "https://open.feishu.cn"),
        ("lark", "https://open.larksuite.com"),
        ("https://proxy.example.com/", "https://proxy.example.com"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_the_domain_is_a_name_or_an_address(domain: str, url: str) -> None:
    assert config(domain=domain).base_url == url


def test_without_a_domain_it_is_feishu() -> None:
    assert config().base_url == "https://open.feishu.cn"
    assert not config().is_loopback


@pytest.mark.parametrize(
    ("keys", "advice"),
    [
        ({"domain": "http://open.feishu.cn"}, "https://"),
        ({"domain": "https://open.feishu.cn/open-apis"}, "such as https://open.feishu.cn"),
        ({"domain": "feishuu"}, "want feishu, lark"),
        ({"mode": "webhook"}, "encrypt_key: missing"),
        ({"mode": "webhook", "encrypt_key": " "}, "encrypt_key: missing"),
        ({"app_secret": " "}, "is empty"),
        ({"path": "events"}, "must begin with /"),
        ({"appid": "x"}, "Extra inputs"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(keys: dict[str, Any], advice: str) -> None:
    with pytest.raises(ValidationError, match=advice):
        config(**keys)


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(config(app_secret="very-hidden")).replace("app_secret", "")
