"""`clawbot explain` on WeChat's and WeCom's payloads, sealed and plain."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from clawbot.config import load_config
from clawbot.explain import explain
from tests.simulators.wechat.pushing import to_xml
from tests.simulators.wechat.sealing import seal

KEY = "MadeUpEncodingAesKey00000000000000000000000"
SECRETS = {"token": "tok", "encoding_aes_key": KEY}
CHANNELS: dict[str, dict[str, Any]] = {
    "wechat": {"app_id": "wx1", **SECRETS},
    "wecom": {"corp_id": "ww1", "agent_id": 1, "secret": "s", **SECRETS},
    "wecom_bot": {"mode": "webhook", "bot_name": "Robot", **SECRETS},
}
RECEIVE_IDS = {"wechat": "wx1", "wecom": "ww1", "wecom_bot": ""}
TEXT = to_xml(
    {
        "FromUserName": "oAlice",
        "CreateTime": "1717000000",
        "MsgType": "text",
        "Content": "hello",
        "MsgId": "1",
    }
)
BOT = json.dumps(
    {
        "msgid": "M",
        "chattype": "group",
        "chatid": "wr1",
        "from": {"userid": "oAlice"},
        "msgtype": "text",
        "text": {"content": "@Robot hello"},
    }
)


async def lines_of(folder: Path, channel: str, payload: str, allow: str = "*") -> dict[str, str]:
    keys = {"allow": {"dm": [allow], "groups": [allow], "senders": [allow]}, **CHANNELS[channel]}
    if channel == "wecom":
        keys["api_base_url"] = "http://127.0.0.1:9/"
    config = {"state_dir": str(folder / "state"), "model": "offline", "channels": {channel: keys}}
    path = folder / "clawbot.yaml"
    await asyncio.to_thread(path.write_text, json.dumps(config))
    loaded = await asyncio.to_thread(load_config, path, environ={})
    told = await explain(loaded, channel, payload)
    return {line[:10].strip(): line[11:] for line in told.splitlines() if line[:10].strip()}


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("is_sealed", [False, True])
async def test_a_message_is_explained(tmp_path: Path, channel: str, is_sealed: bool) -> None:
    payload = BOT if channel == "wecom_bot" else TEXT
    if is_sealed:
        encrypted = seal(payload, KEY, RECEIVE_IDS[channel])
        as_json = channel == "wecom_bot"
        payload = json.dumps({"encrypt": encrypted}) if as_json else to_xml({"Encrypt": encrypted})
    lines = await lines_of(tmp_path, channel, payload)
    assert (lines["decision"], lines["reason"]) == ("queued", "addressed")
    chat = "wr1" if channel == "wecom_bot" else "oAlice"
    assert lines["session"] == f"{channel}:{chat}"
    assert lines["text"].endswith("hello")


async def test_who_is_not_allowed_is_told_with_the_key_to_change(tmp_path: Path) -> None:
    lines = await lines_of(tmp_path, "wechat", TEXT, allow="oBob")
    assert lines["reason"] == "dm_not_allowed"
    assert lines["change"] == "add 'oAlice' to channels.wechat.allow.dm"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("hello", "unreadable_body"),
        (to_xml({"Encrypt": seal(TEXT, KEY, "other")}), "not_our_ciphertext"),
        (
            to_xml({"MsgType": "event", "Event": "VIEW", "FromUserName": "o", "CreateTime": "1"}),
            "view",
        ),
    ],
)
async def test_what_is_no_message_is_explained_too(
    tmp_path: Path, payload: str, reason: str
) -> None:
    lines = await lines_of(tmp_path, "wechat", payload)
    assert (lines["decision"], lines["reason"]) == ("ignored", reason)


async def test_a_sealed_body_needs_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANNELS, "wechat", {"app_id": "wx1", "token": "tok"})
    sealed = to_xml({"Encrypt": seal(TEXT, KEY, "wx1")})
    assert (await lines_of(tmp_path, "wechat", sealed))["reason"] == "no_aes_key"
    both = TEXT.replace("</xml>", "<Encrypt>x</Encrypt></xml>")
    assert (await lines_of(tmp_path, "wechat", both))["decision"] == "queued"
