"""What each kind of provider wants beyond the rules that all share, as data.

A dialect is chosen by the provider's name where that is a known one, else by the wire format that
the config names. Nothing here imports a provider's SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Api = Literal["openai-chat", "openai", "anthropic"]
Thinking = Literal["drop", "field", "signed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One provider's wire.

    base_url, key_variable: its public address, and the environment variable its users know.
    call_ids: the tool call ids it takes; others are replaced.
    thinking: what happens to earlier thinking: dropped, sent back in a field of its own, or sent
        back with its signature while everything before it is unchanged.
    needs_thinking_with_calls: a message with tool calls must carry the field, even an empty one.
    needs_text: a message must carry a text, even an empty one.
    effort_setting: under which name the model library passes a level of thinking on as it is, also
        for models that it does not know; "" = it translates levels itself.
    settings: what each call is given beside its own settings, in the model library's names.
    codes: what its error codes and types mean to us (see `clawbot.errors.ModelError`), where they
        say more than the HTTP status does.
    """

    name: str
    api: Api
    base_url: str
    key_variable: str
    call_ids: re.Pattern[str]
    thinking: Thinking = "drop"
    needs_thinking_with_calls: bool = False
    needs_text: bool = False
    effort_setting: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)


# Chat Completions takes any text of 1-40 characters as an id, Responses of 1-64:
# https://platform.openai.com/docs/api-reference/chat/create
_CHAT_IDS = re.compile(r"[!-~]{1,40}")
_RESPONSES_IDS = re.compile(r"[!-~]{1,64}")
# https://docs.anthropic.com/en/api/messages: "String should match pattern '^[a-zA-Z0-9_-]+$'"
_ANTHROPIC_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}")

# https://platform.openai.com/docs/guides/error-codes; the imitations send the same codes, and some
# of their own: DashScope (data_inspection_failed), Moonshot (exceeded_current_quota_error), Azure
# (content_filter, DeploymentNotFound).
_OPENAI_CODES: Mapping[str, str] = {
    "context_length_exceeded": "overflow",
    "string_above_max_length": "overflow",
    "request_too_large": "overflow",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "exceeded_current_quota_error": "quota",
    "rate_limit_exceeded": "rate_limited",
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "data_inspection_failed": "refused",
    "server_is_overloaded": "retryable",
    "server_error": "retryable",
    "model_not_found": "invalid",
    "DeploymentNotFound": "invalid",
}

# https://docs.anthropic.com/en/api/errors. Its prompt that is too long has no type of its own; the
# model library recognises that one and raises an exception of its own class.
_ANTHROPIC_CODES: Mapping[str, str] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "request_too_large": "overflow",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "retryable",
    "api_error": "retryable",
    "timeout_error": "retryable",
}

# https://docs.z.ai/api-reference/api-code
_ZAI_CODES: Mapping[str, str] = {
    **dict.fromkeys(("1000", "1001", "1002", "1003", "1004", "1110", "1111", "1112"), "auth"),
    **dict.fromkeys(("1113", "1308", "1309", "1310"), "quota"),
    **dict.fromkeys(("1302", "1303", "1304"), "rate_limited"),
    **dict.fromkeys(("1120", "1230", "1234", "1305", "1312", "500"), "retryable"),
    "1261": "overflow",
    "1301": "refused",
}

OPENAI_CHAT = Dialect(
    name="openai-chat",
    api="openai-chat",
    base_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
    call_ids=_CHAT_IDS,
    effort_setting="openai_reasoning_effort",
    codes=_OPENAI_CODES,
)
OPENAI = Dialect(
    name="openai",
    api="openai",
    base_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
    call_ids=_RESPONSES_IDS,
    effort_setting="openai_reasoning_effort",
    # A conversation lives in our store alone: the provider keeps no second copy of it.
    settings={"openai_store": False},
    codes=_OPENAI_CODES,
)
ANTHROPIC = Dialect(
    name="anthropic",
    api="anthropic",
    base_url="https://api.anthropic.com",
    key_variable="ANTHROPIC_API_KEY",
    call_ids=_ANTHROPIC_IDS,
    thinking="signed",
    # Each step of a turn repeats all that came before; without these marks it is paid in full.
    settings={"anthropic_cache_instructions": True, "anthropic_cache_messages": True},
    codes=_ANTHROPIC_CODES,
)
ZAI = Dialect(
    name="zai",
    api="openai-chat",
    base_url="https://api.z.ai/api/paas/v4",
    key_variable="ZAI_API_KEY",
    call_ids=_CHAT_IDS,
    thinking="field",
    # Its API refuses a message whose content is null or absent.
    needs_text=True,
    codes={**_OPENAI_CODES, **_ZAI_CODES},
)
DEEPSEEK = Dialect(
    name="deepseek",
    api="openai-chat",
    base_url="https://api.deepseek.com",
    key_variable="DEEPSEEK_API_KEY",
    call_ids=_CHAT_IDS,
    thinking="field",
    # https://api-docs.deepseek.com/guides/thinking_mode: a call without it is refused.
    needs_thinking_with_calls=True,
    codes=_OPENAI_CODES,
)

_DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (OPENAI_CHAT, OPENAI, ANTHROPIC, ZAI, DEEPSEEK)
}


def dialect_of(provider: str, kind: str | None) -> Dialect | None:
    """The dialect of a provider.

    A known name with the wire format that it always has is spoken as known; any other provider as
    `kind`, which is Chat Completions if not given. None if there is no such kind.
    """
    known = _DIALECTS.get(provider)
    if known is not None and kind in {None, known.api, known.name}:
        return known
    return _DIALECTS.get(kind or OPENAI_CHAT.name)


def known_providers() -> tuple[str, ...]:
    """The names of providers whose address is known."""
    return tuple(_DIALECTS)
