"""Sorts the platform's error codes by what to do about them; for WeChat and WeCom. Pure."""

from __future__ import annotations

import aiohttp

from adapters.payload import Json, number_of, text_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError, WindowClosed

TOKEN_CODES = frozenset({40001, 40014, 41001, 42001})
"""The access token is not taken; a new one may be."""

NO_PERMISSION = 48001
"""The account may not send customer-service messages."""

_WINDOW_CODES = frozenset({43004, 45015, 45047, NO_PERMISSION})
_BUSY = -1
_RATE_CODES = frozenset({45009, 45011})
_BUSY_PAUSE_S = 2.0
_RATE_PAUSE_S = 60.0
_TOKEN_PAUSE_S = 60.0


def code_of(answer: Json) -> int:
    """The error code of an answer; 0 when it has none."""
    return number_of(answer.get("errcode")) or 0


def from_code(where: str, answer: Json) -> SendError:
    """The failure that an error code means."""
    code = code_of(answer)
    told = f"{where}: {code} {text_of(answer.get('errmsg'))[:200]}".rstrip()
    if code == _BUSY:
        return NotSent(told, retry_after_s=_BUSY_PAUSE_S)
    if code in _RATE_CODES:
        return NotSent(told, retry_after_s=_RATE_PAUSE_S)
    if code in TOKEN_CODES:
        return NotSent(told, retry_after_s=_TOKEN_PAUSE_S)
    if code in _WINDOW_CODES:
        return WindowClosed(told)
    return Rejected(told, code=str(code))


def from_status(where: str, status: int) -> SendError:
    """The failure that an answer without readable JSON means."""
    if 400 <= status < 500:
        return NotSent(f"{where}: HTTP {status}, not from the platform's API; check api_base_url")
    return OutcomeUnknown(f"{where}: HTTP {status} without a readable answer")


def from_client_error(where: str, error: aiohttp.ClientError | TimeoutError) -> SendError:
    """The failure that a broken connection means: only before the request is it surely unsent."""
    told = f"{where}: {type(error).__name__}"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent(f"{told} before the request was sent")
    if isinstance(error, aiohttp.InvalidURL):
        return NotSent(f"{told}: check api_base_url")
    return OutcomeUnknown(f"{told} after the request was sent")
