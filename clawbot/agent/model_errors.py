"""What a failed model call means: from the exceptions of the model library to our `ModelError`.

Judged by exception class, HTTP status and the provider's codes, never by the words of a message.
(Where a provider says a thing in words alone, the model library knows the words and raises an
exception of its own class.)
"""

from __future__ import annotations

import aiohttp
import httpx2
from pydantic_ai import exceptions

from clawbot.agent.dialects import Dialect
from clawbot.errors import ModelError

PROVIDER_FAILURES = (
    exceptions.AgentRunError,
    exceptions.UserError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    aiohttp.ClientError,
    OSError,
)
"""All that a call may raise because of the provider or the way to it."""

# The first that fits decides; a class stands before those it inherits from.
_BY_CLASS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.ModelContextWindowExceededError, "overflow"),
    (exceptions.ModelAuthenticationError, "auth"),
    (exceptions.ModelQuotaExceededError, "quota"),
    (exceptions.ModelRateLimitError, "rate_limited"),
    (exceptions.ModelUnavailableError, "retryable"),
    (exceptions.ModelServerError, "retryable"),
    (exceptions.ModelConnectionError, "retryable"),
)
_BY_STATUS = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "retryable",
    409: "retryable",
    413: "overflow",
    425: "retryable",
    429: "rate_limited",
}
_ADVICE = {
    "auth": "; check the provider's api_key in the config",
    "quota": "; the provider's account is out of credit",
    "overflow": "; the request is larger than the model's window",
    "invalid": "; check the model's name and the provider's base_url in the config",
}


def classify(error: Exception, *, model: str, dialect: Dialect) -> ModelError:
    """The error that the loop acts on. Its message holds codes only: no word of the request."""
    kind = _kind(error, dialect)
    message = f"model {model}: {_description(error)}{_ADVICE.get(kind, '')}"
    return ModelError(message, kind=kind, retry_after_s=getattr(error, "retry_after", None))


def _kind(error: Exception, dialect: Dialect) -> str:
    if isinstance(error, exceptions.ModelAPIError):
        for code in (error.provider_error_code, error.provider_error_type):
            if code and code in dialect.codes:
                return dialect.codes[code]
    for cls, kind in _BY_CLASS:
        if isinstance(error, cls):
            return kind
    if isinstance(error, exceptions.ModelHTTPError):
        return _kind_of_status(error.status_code)
    # Not sent as we meant it, by us or the admin: the same call would fail again.
    if isinstance(error, (exceptions.UserError, httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
        return "invalid"
    return "retryable"


def _kind_of_status(status: int) -> str:
    return _BY_STATUS.get(status, "retryable" if status >= 500 else "invalid")


def _description(error: Exception) -> str:
    if isinstance(error, exceptions.ModelHTTPError):
        codes = [error.provider_error_type, error.provider_error_code]
        named = "/".join(code[:60] for code in codes if code)
        return f"HTTP {error.status_code}" + (f" ({named})" if named else "")
    return type(error).__name__
