"""The gate: may this message be answered here? One pure function decides; the default is no.

A refusal carries a reason code, which is logged; people are told only in a direct chat, once a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clawbot.config import ChannelPolicy
from clawbot.messages import ChatType, InboundMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What the gate must know beyond the message.

    follows_thread: the message's thread has a session here already, or the bot began it.
    bot_run: how many messages of bots were taken in here without a person's between them.
    """

    follows_thread: bool = False
    bot_run: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """admit: it is answered. overhear: not for us, may be kept as context. deny: not allowed."""

    action: Literal["admit", "overhear", "deny"]
    reason: str = ""


ADMIT = Verdict(action="admit")


def judge(message: InboundMessage, policy: ChannelPolicy, facts: GateFacts) -> Verdict:
    """Decide whether this sender may talk here, and whether the message is meant for us."""
    if (reason := _forbidden(message, policy, facts)) is not None:
        return Verdict(action="deny", reason=reason)
    if message.chat_type is ChatType.DM or message.mentioned or policy.mention == "never":
        return ADMIT
    if message.mentions_others:
        return Verdict(action="overhear", reason="mentions_others")
    if policy.follow_threads and facts.follows_thread:
        return ADMIT
    return Verdict(action="overhear", reason="not_mentioned")


def _forbidden(message: InboundMessage, policy: ChannelPolicy, facts: GateFacts) -> str | None:
    """Why this sender may not talk here; the more general rule first."""
    sender = message.sender
    in_dm = message.chat_type is ChatType.DM
    rules = (
        ("dm_not_allowed", in_dm and not policy.lists(policy.allow.dm, sender.id)),
        (
            "group_not_allowed",
            not in_dm and not policy.lists(policy.allow.groups, message.chat_id),
        ),
        ("sender_not_allowed", not in_dm and not policy.lists(policy.allow.senders, sender.id)),
        ("bot", sender.is_bot and policy.bots == "deny"),
        ("bot_loop", sender.is_bot and facts.bot_run >= policy.max_bot_turns),
    )
    return next((reason for reason, applies in rules if applies), None)
