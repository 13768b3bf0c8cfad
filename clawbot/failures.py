"""What people are told when a turn fails: a short text and an error id, never the exception."""

from __future__ import annotations

from clawbot.commands.answers import answer

_TEXT_OF = {
    "auth": "model_down",
    "quota": "model_down",
    "retryable": "model_down",
    "rate_limited": "model_busy",
    "overflow": "too_long",
    "no_room": "no_room",
    "refused": "refused",
    "budget_session": "budget_session",
    "budget_user": "budget_user",
    "budget_day": "budget_day",
    "timeout": "timeout",
    "invalid": "crashed",
    "crashed": "crashed",
}

_CONCERNS_EVERYBODY = frozenset({"auth", "quota", "retryable", "rate_limited"})


def failure_text(kind: str, error_id: str, *, like: str) -> str:
    """The text for a failure of this kind, in the language of `like`."""
    return answer(f"failed_{_TEXT_OF[kind]}", like=like, error_id=error_id)


def notice_of(kind: str) -> str | None:
    """The name of a fault that concerns every message: a chat is told of it once in a while."""
    return kind if kind in _CONCERNS_EVERYBODY else None
