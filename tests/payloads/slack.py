"""Slack's rows: signed requests and Socket Mode frames, and a Web API that knows their names."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adapters.slack.adapter import SlackAdapter
from clawbot.ports import Accept, ChannelAdapter, Clock
from tests.payloads.platforms import Given
from tests.payloads.rows import Row
from tests.payloads.stub_api import ApiCall, tabled

_SECRET = "made-up-signing-secret"
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


def channel_keys(row: Row, api_url: str) -> Mapping[str, Any]:
    """See `Platform`."""
    ctx = row.ctx
    own = {"app_id": ctx["app_id"]} if ctx.get("app_id") else {}
    return own | {
        "type": "slack",
        "mode": "socket" if row.transport == "socket" else "http",
        "bot_token": ctx.get("bot_token") or "xoxb-made-up",
        "app_token": "xapp-made-up",
        "signing_secret": _secret(row),
        "api_base_url": f"{api_url}/api/",
    }


def answer_call(row: Row, call: ApiCall) -> tuple[int, Any]:
    """See `Platform`. Slack answers 200 to what it refuses, too."""
    ctx, names, arguments = row.ctx, row.names, call.arguments
    # Slack takes every method by either verb, whichever of them a row names.
    for verb in ("GET", "POST"):
        if (told := tabled(ctx.get("api") or {}, replace(call, method=verb))) is not None:
            return 200, told
    method = call.path.rpartition("/")[2]
    answer: dict[str, Any] | None = None
    match method:
        case "auth.test":
            bot_name = ctx.get("bot_name") or names.users.get(ctx.get("bot_user_id", ""), "")
            answer = {"user_id": ctx.get("bot_user_id", ""), "user": bot_name}
            answer |= {"bot_id": ctx.get("bot_id", ""), "team_id": ctx.get("team_id", "")}
        case "apps.connections.open":
            answer = {"url": "ws://127.0.0.1:9/link"}
        case "users.info" if arguments.get("user") in names.users:
            name = names.users[arguments["user"]]
            answer = {"user": {"id": arguments["user"], "name": name, "profile": {}}}
        case "conversations.info" if arguments.get("channel") in names.channels:
            name = names.channels[arguments["channel"]]
            answer = {"channel": {"id": arguments["channel"], "name": name}}
    return 200, {"ok": False, "error": "not_found"} if answer is None else {"ok": True, **answer}


async def push(adapter: ChannelAdapter, accept: Accept, row: Row, clock: Clock) -> Given:
    """See `Platform`."""
    assert isinstance(adapter, SlackAdapter)
    intake = adapter.intake(accept)
    raw = row.body if isinstance(row.body, str) else json.dumps(row.body)
    if row.transport == "socket":
        return Given(response=await intake.handle_envelope(raw))
    # A lone surrogate in a raw body stays the fault it is.
    body = raw.encode("utf-8", "surrogatepass")
    answer = await intake.handle_http(
        row.ctx.get("method") or "POST",
        _headers(row, body, clock),
        row.ctx.get("query") or {},
        body,
    )
    return Given(http=answer.status, response=answer.body)


def _secret(row: Row) -> str:
    return row.ctx.get("signing_secret") or _SECRET


def _headers(row: Row, body: bytes, clock: Clock) -> dict[str, str]:
    """The row's headers; signed here, unless the row is about its signature."""
    headers = dict(row.ctx.get("headers") or {})
    given = {name.lower() for name in headers}
    if "content-type" not in given:
        is_json = body.lstrip().startswith((b"{", b"[")) or b"=" not in body
        headers["Content-Type"] = _JSON if is_json else _FORM
    is_about_signing = "headers" in row.ctx and "signing_secret" in row.ctx
    if is_about_signing or given & {"x-slack-signature", "x-slack-request-timestamp"}:
        return headers
    stamp = str(clock.now_ms() // 1000)
    base = b"v0:" + stamp.encode() + b":" + body
    digest = hmac.new(_secret(row).encode(), base, hashlib.sha256).hexdigest()
    return headers | {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}
