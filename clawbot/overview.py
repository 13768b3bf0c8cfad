"""What a person may see of their direct chat at a glance, for platforms that have a page for it."""

from __future__ import annotations

from clawbot.access import GateFacts, judge
from clawbot.commands.answers import answer
from clawbot.commands.execute import execute
from clawbot.commands.grammar import Command
from clawbot.commands.tasks import Standing
from clawbot.config import ChannelPolicy, Models
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.ports import Transaction
from clawbot.router import route
from clawbot.store.directory import StoredDirectory
from clawbot.store.session_admin import settings_of

_SHOWN = ("status", "sessions", "unread")


def overview(
    tx: Transaction,
    channel: str,
    policy: ChannelPolicy,
    models: Models,
    chat_id: str,
    person: str,
    now_ms: int,
) -> str | None:
    """What `/status`, `/sessions` and `/unread` would answer there, and the settings, as Markdown;
    None when this person may not talk to us. It only reads.
    """
    looking = InboundMessage(
        channel=channel,
        identity="",
        chat_id=chat_id,
        chat_type=ChatType.DM,
        sender=Sender(id=person),
        text="",
        raw="",
    )
    if judge(looking, policy, GateFacts()).action == "deny":
        return None
    way = route(looking, policy.scope, StoredDirectory(tx, looking, now_ms), can_edit=False)
    standing = Standing(
        place=way.place,
        base=way.base,
        active=way.session,
        is_owner=False,
        like="",
        now_ms=now_ms,
    )
    answers = [
        execute(
            tx,
            Command(name=name),
            looking,
            way.session,
            models=models,
            now_ms=now_ms,
            standing=standing,
        ).text
        for name in _SHOWN
    ]
    own = settings_of(tx, way.session)
    settings = answer(
        "settings",
        like="",
        model=own.model or models.usual,
        mention=answer(f"mention_{policy.mention}", like=""),
        queue=own.queue or policy.queue.policy,
    )
    return "\n\n".join([*answers, settings])
