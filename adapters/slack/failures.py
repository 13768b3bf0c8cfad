"""Sorts what can go wrong with a Web API call by what to do about it. Pure: no network.

Sends are not idempotent on Slack, so the question is always: can the platform have taken it?
"""

from __future__ import annotations

import aiohttp
from slack_sdk.errors import SlackApiError

from adapters.payload import text_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError

AUTH_CODES = frozenset(
    {
        "account_inactive",
        "app_uninstalled",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "org_login_required",
        "token_expired",
        "token_revoked",
    }
)
"""Slack refuses the account itself; only an admin can help."""

BLOCK_CODES = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
"""Slack does not take the block; the same text without it may do."""

NO_STREAM_CODES = frozenset({"streaming_state_conflict"})
"""The message cannot be changed because it is still a stream."""

_RATE_CODES = frozenset({"ratelimited", "rate_limited"})
_UNFINISHED_CODES = frozenset(
    {"fatal_error", "internal_error", "request_timeout", "service_unavailable"}
)
"""Answers of a server that broke down on the way: "some aspect may have succeeded"."""

_BEFORE_SENDING = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
)
_DEFAULT_PAUSE_S = 1.0


def from_api_error(method: str, error: SlackApiError) -> SendError:
    """The failure that an answer of Slack means.

    The SDK hands over the answer in several shapes; its data is text where the body was no JSON.
    """
    answer = error.response
    status = _status(answer)
    data = getattr(answer, "data", None)
    code = text_of(data.get("error")) if isinstance(data, dict) else ""
    where = f"slack {method}"
    if status == 429 or code in _RATE_CODES:
        pause_s = _retry_after_s(answer)
        return NotSent(f"{where}: rate limited for {pause_s:g} s", retry_after_s=pause_s)
    if code in _UNFINISHED_CODES or (not code and not 400 <= status < 500):
        return OutcomeUnknown(f"{where}: HTTP {status} {code or 'without a readable answer'}")
    if not code:
        return NotSent(f"{where}: HTTP {status}, not from Slack's API; check api_base_url")
    return Rejected(f"{where}: {code}", code=code)


def from_client_error(method: str, error: aiohttp.ClientError | TimeoutError) -> SendError:
    """The failure that a broken connection means: only before the request is it surely unsent."""
    where = f"slack {method}: {type(error).__name__}"
    if isinstance(error, _BEFORE_SENDING):
        return NotSent(f"{where} before the request was sent")
    if isinstance(error, aiohttp.InvalidURL):
        return NotSent(f"{where}: check api_base_url")
    return OutcomeUnknown(f"{where} after the request was sent")


def _status(answer: object) -> int:
    for name in ("status_code", "status"):
        value = getattr(answer, name, None)
        if isinstance(value, int):
            return value
    return 0


def _retry_after_s(answer: object) -> float:
    headers = getattr(answer, "headers", None) or {}
    try:
        return max(float(headers.get("Retry-After", _DEFAULT_PAUSE_S)), 0.0)
    except ValueError:
        return _DEFAULT_PAUSE_S
