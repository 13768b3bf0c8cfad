"""The wire rules as one door: which rules of its API a request body breaks.

Tests of request builders call `violations` directly, without a server.
"""

from typing import Any

from .anthropic_rules import anthropic_violations
from .conversation import Api
from .openai_rules import chat_violations, responses_violations
from .violation import RecordedViolation, Strictness, Violation, estimated_tokens

__all__ = [
    "RecordedViolation",
    "Strictness",
    "Violation",
    "estimated_tokens",
    "prompt_tokens",
    "violations",
]

_PROMPT_FIELDS = ("system", "instructions", "messages", "input", "tools")


def violations(api: Api, body: dict[str, Any], strictness: Strictness) -> list[Violation]:
    """Every rule of the named API that `body` breaks, the one the provider reports first."""
    if api == "anthropic":
        return anthropic_violations(body, strictness)
    if api == "openai-chat":
        return chat_violations(body, strictness)
    return responses_violations(body, strictness)


def prompt_tokens(body: dict[str, Any]) -> int:
    """The estimated size of everything in the body that the model reads."""
    return sum(estimated_tokens(body[name]) for name in _PROMPT_FIELDS if name in body)
