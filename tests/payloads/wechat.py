"""WeChat's and WeCom's rows: Official Account, app, and AI bot, each with its own signatures.

A bot's body stands in the rows as it is inside its envelope; it is sealed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adapters.wechat.adapter import WechatAdapter
from adapters.wecom.adapter import WecomAdapter
from adapters.wecom.bot_adapter import WecomBotAdapter
from clawbot.ports import Accept, ChannelAdapter, Clock
from tests.payloads.platforms import Given
from tests.payloads.rows import Row, ShiftedClock
from tests.payloads.stub_api import ApiCall
from tests.simulators.wechat.sealing import seal, sign

_TOKEN = "made-up-token"
_AES_KEY = "MadeUpEncodingAesKey00000000000000000000000"


def channel_keys(row: Row, api_url: str) -> Mapping[str, Any]:
    """See `Platform`."""
    ctx = row.ctx
    listen = {"listen_port": 0}
    if _is_bot(row):
        return listen | {
            "type": "wecom_bot",
            "mode": "socket" if row.transport == "ws" else "webhook",
            "bot_id": ctx.get("aibot_id") or "made-up-bot",
            "secret": "made-up-secret",
            "bot_name": ctx.get("bot_name") or "",
            "token": ctx.get("token") or _TOKEN,
            "encoding_aes_key": ctx.get("aes_key") or _AES_KEY,
        }
    if ctx.get("corp_id"):
        return listen | {
            "type": "wecom",
            "corp_id": ctx["corp_id"],
            "agent_id": int(ctx.get("agent_id") or 0),
            "secret": "made-up-secret",
            "token": ctx.get("token") or _TOKEN,
            "encoding_aes_key": ctx.get("aes_key") or _AES_KEY,
            "api_base_url": f"{api_url}/",
            "receive_ids": [ctx["receive_id"]] if ctx.get("receive_id") else [],
        }
    key = {"encoding_aes_key": ctx["aes_key"]} if ctx.get("aes_key") else {}
    return (
        listen
        | key
        | {
            "type": "wechat",
            "app_id": ctx.get("app_id") or "wx-made-up",
            "token": ctx.get("token") or _TOKEN,
            "customer_service": True,
            "app_secret": "made-up-secret",
            "hold_s": 0.05,  # nobody answers here
            "api_base_url": f"{api_url}/",
        }
    )


def answer_call(row: Row, call: ApiCall) -> tuple[int, Any]:
    """See `Platform`."""
    del row
    if call.path.endswith(("stable_token", "gettoken")):
        return 200, {"errcode": 0, "access_token": "made-up", "expires_in": 7200}
    return 200, {"errcode": 48001, "errmsg": "no permission"}


async def push(adapter: ChannelAdapter, accept: Accept, row: Row, clock: Clock) -> Given:
    """See `Platform`. The clock stands at the time at which the request was signed."""
    query = {name: str(value) for name, value in (row.ctx.get("query") or {}).items()}
    assert isinstance(clock, ShiftedClock)
    if query.get("timestamp", "").isdigit() and not {"now", "now_ms"} & row.ctx.keys():
        clock.set(replace(row, ctx={"now": int(query["timestamp"])}))
    if isinstance(adapter, WecomBotAdapter):
        return await _push_to_bot(adapter, accept, row, query, clock)
    assert isinstance(adapter, WechatAdapter | WecomAdapter)
    if "query" not in row.ctx:
        stamp = str(clock.now_ms() // 1000)
        token = row.ctx.get("token") or _TOKEN
        query = {"timestamp": stamp, "nonce": "1", "signature": sign(token, stamp, "1")}
    handle = adapter.callback(accept).handle_http
    answer = await handle(_method(row), _headers(row), query, _text(row).encode())
    return Given(http=answer.status, response=answer.body)


async def _push_to_bot(
    adapter: WecomBotAdapter, accept: Accept, row: Row, query: dict[str, str], clock: Clock
) -> Given:
    if row.transport == "ws":
        frame = row.body if isinstance(row.body, dict) else json.loads(row.body)
        if frame.get("cmd"):  # an answer to one of our own frames goes to who waits for it
            await adapter.handle_frame(accept, frame)
        return Given()
    text = _text(row)
    if "query" not in row.ctx:
        token, stamp = row.ctx.get("token") or _TOKEN, str(clock.now_ms() // 1000)
        encrypted = seal(text, row.ctx.get("aes_key") or _AES_KEY, "")
        query = {"timestamp": stamp, "nonce": "1"}
        query["msg_signature"] = sign(token, stamp, "1", encrypted)
        text = json.dumps({"encrypt": encrypted})
    handle = adapter.callback(accept).handle_http
    answer = await handle(_method(row), _headers(row), query, text.encode())
    return Given(http=answer.status, response=answer.body)


def _is_bot(row: Row) -> bool:
    return "aibot_id" in row.ctx or row.transport == "ws"


def _text(row: Row) -> str:
    return row.body if isinstance(row.body, str) else json.dumps(row.body, ensure_ascii=False)


def _method(row: Row) -> str:
    return row.ctx.get("method") or "POST"


def _headers(row: Row) -> dict[str, str]:
    return dict(row.ctx.get("headers") or {})
