"""Sorts what can go wrong with a call of the Open API by what to do about it. Pure: no network.

Codes: open.feishu.cn, "Generic error codes" and the table of each API. HTTP statuses say little: a
refusal comes with 200, 400 or 429, and always with a code in its body.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from adapters.payload import Json, number_of, text_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError

AUTH_CODES = frozenset({"10003", "10005", "10012", "10014", "99991543", "99991662", "20014"})
"""Feishu refuses the app itself: wrong id or secret, not enabled. Only an admin can help."""

TOKEN_CODES = frozenset({"99991661", "99991663", "99991664", "99991665", "99991668", "99991671"})
"""The tenant token is not (no longer) good; a fresh one is."""

SCOPE_CODES = frozenset({"99991672", "99991679", "230027"})
"""The app lacks a permission; it will until an admin grants it."""

QUOTA_CODES = frozenset({"99991403"})
"""The tenant's API calls of this month are used up."""

GONE_CODES = frozenset({"230011", "230110", "231003", "230019", "230071"})
"""The message to answer is recalled, deleted, or its topic is gone: send without it."""

CONTENT_CODES = frozenset({"230001", "230099", "230054", "200340", "200380", "200621", "200740"})
"""This content cannot be shown in this form; another form may be."""

LENGTH_CODES = frozenset({"230025", "200860"})
"""Too long in this form."""

EDIT_ENDED_CODES = frozenset({"230072", "230075", "230050", "230031", "200850", "300309", "300313"})
"""This message or card cannot be changed any more: too often, too old, or closed."""

SEQUENCE_CODES = frozenset({"300317"})
"""A card was changed with a greater sequence meanwhile."""

_CHAT_RATE_CODES = frozenset({"230020"})
_RATE_CODES = frozenset({"99991400", "99991402", "11020", "11232", "11233", "11247", "200810"})
_BUSY_CODES = frozenset({"230049", "230057", "2200", "1500", "1000040343", "300305"})
_DEFAULT_PAUSE_S = 1.0
_QUOTA_PAUSE_S = 3600.0


class TokenRefused(Rejected):
    """The tenant token is not good; nothing was done."""


class RateLimited(NotSent):
    """Too many calls. `is_chat`: to this chat only; else of this API, by this app."""

    def __init__(self, message: str, *, retry_after_s: float, is_chat: bool) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.is_chat = is_chat


def from_answer(
    name: str, status: int, headers: Mapping[str, str], answer: Json | None
) -> SendError | None:
    """The failure that an answer of the API means; None when it went well.

    name: the API's, for messages. answer: the body as an object, None when it is none.
    """
    where = f"feishu {name}"
    number = None if answer is None else number_of(answer.get("code"))
    if answer is None or number is None:
        return _unreadable(where, status, headers)
    if number == 0 and status < 400:
        return None
    told = f"{where}: {number} {text_of(answer.get('msg'))[:200]}".rstrip()
    if (limited := _limited(told, str(number), status, headers)) is not None:
        return limited
    return _refused(told, str(number), status)


def _unreadable(where: str, status: int, headers: Mapping[str, str]) -> SendError:
    if status == 429:
        return RateLimited(f"{where}: HTTP 429", retry_after_s=_pause_s(headers), is_chat=False)
    if 400 <= status < 500:
        return NotSent(f"{where}: HTTP {status}, not from Feishu's API; check domain")
    return OutcomeUnknown(f"{where}: HTTP {status} without a readable answer")


def _limited(told: str, code: str, status: int, headers: Mapping[str, str]) -> RateLimited | None:
    if code in QUOTA_CODES:
        return RateLimited(told, retry_after_s=_QUOTA_PAUSE_S, is_chat=False)
    if code in _CHAT_RATE_CODES:
        return RateLimited(told, retry_after_s=_pause_s(headers), is_chat=True)
    if status == 429 or code in _RATE_CODES:
        return RateLimited(told, retry_after_s=_pause_s(headers), is_chat=False)
    return None


def _refused(told: str, code: str, status: int) -> SendError:
    if code in TOKEN_CODES:
        return TokenRefused(told, code=code)
    if code in _BUSY_CODES or status >= 500:
        return OutcomeUnknown(told)
    return Rejected(told, code=code)


def from_client_error(name: str, error: aiohttp.ClientError | TimeoutError) -> SendError:
    """The failure that a broken connection means: only before the request is it surely unsent."""
    where = f"feishu {name}: {type(error).__name__}"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent(f"{where} before the request was sent")
    if isinstance(error, aiohttp.InvalidURL):
        return NotSent(f"{where}: check domain")
    return OutcomeUnknown(f"{where} after the request was sent")


def _pause_s(headers: Mapping[str, str]) -> float:
    """How long Feishu wants us to wait; its own header counts in seconds."""
    for name in ("x-ogw-ratelimit-reset", "Retry-After"):
        try:
            return max(float(headers[name]), 0.1)
        except (KeyError, ValueError):
            continue
    return _DEFAULT_PAUSE_S
