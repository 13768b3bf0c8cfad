"""Feishu's rows: callbacks and frames of the long connection, and an Open API that knows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from adapters.feishu.adapter import FeishuAdapter
from clawbot.ports import Accept, ChannelAdapter, Clock
from tests.payloads.platforms import Given
from tests.payloads.rows import Row
from tests.payloads.stub_api import ApiCall

_STAMP = "X-Lark-Request-Timestamp"


def channel_keys(row: Row, api_url: str) -> Mapping[str, Any]:
    """See `Platform`."""
    ctx = row.ctx
    keys = {
        "type": "feishu",
        "mode": "long_connection" if row.transport == "ws" else "webhook",
        "domain": api_url,
        "app_id": ctx.get("app_id") or "cli_made_up",
        "app_secret": "made-up-secret",
    }
    told = {name: ctx[name] for name in ("encrypt_key", "verification_token") if ctx.get(name)}
    return keys | (told or {"verification_token": "made-up-token"})


def answer_call(row: Row, call: ApiCall) -> tuple[int, Any]:
    """See `Platform`. What a row does not tell of is refused, as without the scope."""
    ctx, names = row.ctx, row.names
    last = call.path.rpartition("/")[2]
    if call.path.endswith("/tenant_access_token/internal"):
        return 200, {"code": 0, "tenant_access_token": "t-made-up", "expire": 7200}
    if call.path.endswith("/bot/v3/info"):
        bot = {"open_id": ctx.get("bot_open_id", ""), "app_name": ctx.get("bot_name", "")}
        return 200, {"code": 0, "bot": bot}
    if "/contact/v3/users/" in call.path and last in names.users:
        user = {"open_id": last, "name": names.users[last]}
        return 200, {"code": 0, "data": {"user": user}}
    if "/contact/v3/users/" in call.path and names.users:
        return 400, {"code": 41050, "msg": "no user authority error"}
    return 400, {"code": 99991672, "msg": "Access denied. One of the scopes is required."}


async def push(adapter: ChannelAdapter, accept: Accept, row: Row, clock: Clock) -> Given:
    """See `Platform`."""
    assert isinstance(adapter, FeishuAdapter)
    intake = adapter.intake(accept)
    raw = row.body if isinstance(row.body, str) else json.dumps(row.body)
    # A lone surrogate in a raw body stays the fault it is.
    body = raw.encode("utf-8", "surrogatepass")
    if row.transport == "ws":
        return Given(response=await intake.handle_event(body))
    headers = _headers(row, body, clock)
    method, query = row.ctx.get("method") or "POST", row.ctx.get("query") or {}
    answer = await intake.handle_http(method, headers, query, body)
    return Given(http=answer.status, response=answer.body)


def _headers(row: Row, body: bytes, clock: Clock) -> dict[str, str]:
    """The row's headers; signed here where the row has a key and says nothing of a signature."""
    headers = {"Content-Type": "application/json", **(row.ctx.get("headers") or {})}
    key = row.ctx.get("encrypt_key")
    if not key or "headers" in row.ctx:
        return headers
    stamp, nonce = str(clock.now_ms() // 1000), "made-up-nonce"
    digest = hashlib.sha256(f"{stamp}{nonce}{key}".encode() + body).hexdigest()
    signed = {_STAMP: stamp, "X-Lark-Request-Nonce": nonce, "X-Lark-Signature": digest}
    return headers | signed
