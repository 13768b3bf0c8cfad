"""From a Slack payload to an inbound message, or the reason why it is none. Pure: no network.

A post in a channel that mentions the bot arrives twice, as `message` and as `app_mention`, in any
order; both copies get the same identity (channel and ts), so the store answers the post once. The
identities and routes here are the adapter's own; nobody else looks into them.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from adapters.payload import Json, object_of, objects_of, storable, text_of
from adapters.slack.blocks import has_quote, is_forward, read_attachments, read_blocks
from adapters.slack.facts import SLASH_TOKEN, Facts
from adapters.slack.files import attachment_of, describe, is_undescribed
from adapters.slack.interactions import parse_interaction, raw_of
from adapters.slack.references import Asked
from adapters.slack.words import Passage, Words, literals, passages_of, read, trim
from clawbot.messages import Attachment, ChatType, Ignored, InboundMessage, Sender

_SAID = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})
_EDITS = {"message_changed": "edit", "message_deleted": "deletion"}
_INTERACTIVE = frozenset(
    {
        "block_actions",
        "block_suggestion",
        "dialog_cancellation",
        "dialog_submission",
        "dialog_suggestion",
        "interactive_message",
        "message_action",
        "shortcut",
        "view_closed",
        "view_submission",
        "workflow_step_edit",
    }
)
_DM_TYPES = frozenset({"im", "app_home"})
_SLACKBOT = "USLACKBOT"
_STAND_IN = re.compile(
    r"(?:This content can['’]t be displayed\.?|This message contains interactive elements\.?"
    r"|\[no preview available\])",
    re.IGNORECASE,
)


def parse_event(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """Read an Events API payload, a Socket Mode envelope, a slash command or an interaction.

    Never raises for anything a peer can send; what is no message is Ignored with a stable code.
    """
    inner = payload.get("payload")
    if isinstance(inner, dict) and "envelope_id" in payload:
        payload = inner
    payload = storable(payload)
    if foreign := _foreign(payload, facts):
        return Ignored(reason=foreign)
    if "command" in payload:
        return _parse_slash(payload, facts)
    kind = text_of(payload.get("type"))
    if kind == "event_callback":
        return _parse_callback(payload, facts)
    if kind in _INTERACTIVE:
        return parse_interaction(payload, facts)
    return Ignored(reason=kind if kind == "app_rate_limited" else "not_a_message")


def _foreign(payload: Json, facts: Facts) -> str | None:
    """The reason why a payload is not for this app or workspace, as far as we know them.

    With Slack Connect the outer team_id is the writer's; `authorizations` names the installation.
    """
    app_id, ours = text_of(payload.get("api_app_id")), facts.identity
    if app_id and ours.app_id and app_id != ours.app_id:
        return "foreign_app"
    authorizations = objects_of(payload.get("authorizations"))
    if any(text_of(each.get("user_id")) in ours.user_ids for each in authorizations):
        return None
    holders = [payload, *authorizations]
    holders += [object_of(payload.get("team")), object_of(payload.get("enterprise"))]
    keys = ("team_id", "enterprise_id", "context_team_id", "context_enterprise_id", "id")
    teams = {text_of(holder.get(key)) for holder in holders for key in keys} - {""}
    if teams and ours.team_ids and not teams & ours.team_ids:
        return "foreign_team"
    return None


def _parse_callback(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    event = object_of(payload.get("event"))
    reason = _ended(event, facts) or _no_post(event)
    if reason:
        return Ignored(reason=reason)
    sender = _sender(event, facts)
    if sender is None:
        return Ignored(reason="self")
    if not sender.id:
        return Ignored(reason="no_sender")
    return _parse_post(payload, event, sender, facts)


def _ended(event: Json, facts: Facts) -> str | None:
    """Whether Slack says that our own token or the whole app is gone from the workspace."""
    kind = text_of(event.get("type"))
    revoked = object_of(event.get("tokens")).get("bot")
    bots = {text_of(each) for each in revoked} if isinstance(revoked, list) else set()
    ours = facts.identity.user_ids
    if kind == "tokens_revoked" and bots and (bots & ours or not ours):
        return kind
    return kind if kind == "app_uninstalled" else None


def _no_post(event: Json) -> str | None:
    """The reason why an event is nothing that somebody said, if it is not."""
    kind, subtype = text_of(event.get("type")), text_of(event.get("subtype"))
    if kind not in {"message", "app_mention"}:
        return "assistant_event" if kind.startswith("assistant_thread_") else "not_a_message"
    if subtype not in _SAID or event.get("hidden") is True:
        return _EDITS.get(subtype, "notice")
    if not text_of(event.get("channel")) or not text_of(event.get("ts")):
        return "malformed"
    if kind == "app_mention" and _chat_type(event) is ChatType.DM:
        return "app_mention_in_dm"  # message.im says the same
    return None


def _parse_post(
    payload: Json, event: Json, sender: Sender, facts: Facts
) -> InboundMessage | Ignored:
    """A post of somebody else: its words, files and place."""
    own = read(_own_passages(event), facts)
    files = _files(event)
    attachments = objects_of(event.get("attachments"))
    said = bool(own.text or files or any(map(is_forward, attachments)) or sender.is_bot)
    if not said:
        return Ignored(reason="empty")
    shown = read_attachments(attachments)
    shown += [Passage(source=describe(each), quoted=True) for each in files]
    place = f"{text_of(event.get('channel'))}:{text_of(event.get('thread_ts'))}"
    if seen := facts.viewing.get(place):
        shown.append(Passage(source=f"[looking at <#{seen}>]", quoted=True))
    more = read(shown, facts)
    text = trim("\n".join(each.text for each in (own, more) if each.text))
    if not text:
        return Ignored(reason="empty")
    chat_id, ts = text_of(event.get("channel")), text_of(event.get("ts"))
    chat_type = _chat_type(event)
    thread = text_of(event.get("thread_ts")) or None
    opens = ts if chat_type is ChatType.GROUP and thread is None else None
    return InboundMessage(
        channel=facts.channel,
        identity=f"{chat_id}:{ts}",
        transport_ids=_transport_ids(payload),
        chat_id=chat_id,
        chat_type=chat_type,
        sender=sender,
        text=text,
        raw=raw_of(payload),
        thread=thread,
        opens_thread=opens,
        reply_token=_asked(payload, event, sender).encode(),
        mentioned=_is_mentioned(event, own),
        mentions_others=own.mentions_others,
        command_text=_command_text(own.own),
        is_incomplete=_is_incomplete(sender, files, own, more),
        sent_at_ms=_milliseconds(ts),
        attachments=_attachments(files),
    )


def _asked(payload: Json, event: Json, sender: Sender) -> Asked:
    """With Slack Connect the writer's workspace is another than ours."""
    teams = [text_of(event.get(key)) for key in ("user_team", "source_team", "team")]
    teams.append(text_of(payload.get("team_id")))
    return Asked(
        ts=text_of(event.get("ts")),
        user_id="" if sender.is_bot else sender.id,
        team_id=next((team for team in teams if team), ""),
    )


def _own_passages(event: Json) -> list[Passage]:
    """What the sender wrote: the flat text, or the blocks where they say more.

    The client sends the same words twice. Blocks win when the text is missing or a stand-in, when
    they hold a quote (the flat text does not always show it), or words that the text lacks.
    """
    flat = text_of(event.get("text"))
    from_text = passages_of(flat) if flat and not _STAND_IN.fullmatch(flat.strip()) else []
    blocks = event.get("blocks")
    from_blocks = read_blocks(blocks)
    if not from_blocks:
        return from_text or passages_of(flat)
    if not from_text or has_quote(blocks):
        return from_blocks
    return from_blocks if literals(from_blocks) - literals(from_text) else from_text


def _is_mentioned(event: Json, own: Words) -> bool:
    """Slack also calls a quoted mention an app_mention; where we see that it is one, it is none."""
    if own.mentions_bot:
        return True
    return event.get("type") == "app_mention" and not own.quotes_bot


def _is_incomplete(sender: Sender, files: list[Json], *words: Words) -> bool:
    if not sender.name or any(map(is_undescribed, files)):
        return True
    return not all(each.is_complete for each in words)


def _sender(event: Json, facts: Facts) -> Sender | None:
    """Who wrote it; None when we did. An app that posts is a bot, with or without the subtype."""
    user_id, bot_id = text_of(event.get("user")), text_of(event.get("bot_id"))
    profile, bot = object_of(event.get("user_profile")), object_of(event.get("bot_profile"))
    ours = facts.identity
    if user_id in ours.user_ids or bot_id in ours.bot_ids:
        return None
    if ours.app_id and text_of(bot.get("app_id")) == ours.app_id:
        return None
    is_bot = bool(bot_id or bot) or event.get("subtype") == "bot_message" or user_id == _SLACKBOT
    names = [facts.users.get(user_id, "")]
    names += [text_of(profile.get(key)) for key in ("display_name", "real_name", "name")]
    if is_bot:
        names += [text_of(event.get("username")), text_of(bot.get("name"))]
    # An id that Slack does not name is known as itself, so that it is not asked for again.
    if user_id in facts.users or is_bot:
        names.append(user_id or bot_id)
    name = next((each for each in names if each), "")
    return Sender(id=user_id or bot_id or text_of(event.get("username")), name=name, is_bot=is_bot)


def _chat_type(event: Json) -> ChatType:
    """By channel_type; app_mention has none, and then only the D of a direct message is certain."""
    declared = text_of(event.get("channel_type"))
    if declared:
        return ChatType.DM if declared in _DM_TYPES else ChatType.GROUP
    return ChatType.DM if text_of(event.get("channel")).startswith("D") else ChatType.GROUP


def _parse_slash(payload: Json, facts: Facts) -> InboundMessage | Ignored:
    """Slash words stand at the chat's root: Slack gives them no thread, and no ts either."""
    chat_id, user_id = text_of(payload.get("channel_id")), text_of(payload.get("user_id"))
    once = text_of(payload.get("trigger_id")) or text_of(payload.get("response_url"))
    if not chat_id or not user_id or not once:
        return Ignored(reason="malformed")
    if user_id in facts.identity.user_ids:
        return Ignored(reason="self")
    words = read([Passage(source=text_of(payload.get("text")))], facts)
    if not words.text:
        return Ignored(reason="empty")
    name = facts.users.get(user_id) or text_of(payload.get("user_name")) or user_id
    return InboundMessage(
        channel=facts.channel,
        identity=f"slash:{once}",
        chat_id=chat_id,
        chat_type=ChatType.DM if chat_id.startswith("D") else ChatType.GROUP,
        sender=Sender(id=user_id, name=name),
        text=words.text,
        raw=raw_of(payload),
        mentioned=True,
        command_text=_slash_command_text(words.text),
        reply_token=SLASH_TOKEN,
        is_incomplete=not words.is_complete,
    )


def _slash_command_text(words: str) -> str:
    """`/clawbot stop` is the chat command /stop; a mark of the person's own is kept."""
    return words if words.startswith(("/", "!", "／", "！")) else f"/{words}"


def _command_text(own: str) -> str | None:
    """A no-break space, as the client puts it after a completed mention, separates words too."""
    return own.replace("\u00a0", " ") or None


def _transport_ids(payload: Json) -> tuple[str, ...]:
    event_id = text_of(payload.get("event_id"))
    return (event_id,) if event_id else ()


def _files(event: Json) -> list[Json]:
    """The message's files and those of what it forwards."""
    files = objects_of(event.get("files"))
    for attachment in objects_of(event.get("attachments")):
        if is_forward(attachment):
            files += objects_of(attachment.get("files"))
    return files


def _attachments(files: list[Json]) -> tuple[Attachment, ...]:
    found = (attachment_of(each) for each in files)
    return tuple(each for each in found if each is not None)


def _milliseconds(ts: str) -> int | None:
    try:
        return int(Decimal(ts) * 1000)
    except (InvalidOperation, ValueError, OverflowError):
        return None
