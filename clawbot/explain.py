"""`clawbot explain`: what would become of one recorded payload, and what an admin can change.

The payload takes the path of a received one, through the adapter's parser, the gate and the router,
but into a store that is thrown away: nothing is answered and nothing is sent. The platform is asked
only who we are and what names the message mentions.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select

from clawbot import parts
from clawbot.agent.prompt import for_request, user_entries
from clawbot.channels import CHANNEL_TYPES, load
from clawbot.clock import SystemClock
from clawbot.config import ChannelConfig, Config
from clawbot.errors import ChannelBroken, ClawbotError, ConfigError, StartupError
from clawbot.intake import ChannelRules, admit
from clawbot.messages import Accepted, Ignored, InboundMessage
from clawbot.parts.adapter import rules_of
from clawbot.ports import ChannelAdapter, Enricher, PayloadReader, Transaction
from clawbot.router import Route, route
from clawbot.store import inbox
from clawbot.store.directory import StoredDirectory
from clawbot.store.schema import inbox as inbox_rows

CHECK_TIMEOUT_S = 20.0

_CHANGES = {
    "dm_not_allowed": "add {sender!r} to channels.{channel}.allow.dm",
    "group_not_allowed": "add {chat!r} to channels.{channel}.allow.groups",
    "sender_not_allowed": "add {sender!r} to channels.{channel}.allow.senders",
    "bot": "set channels.{channel}.bots: allow; it must be on the allow lists, too",
    "bot_loop": "a person must write, or raise channels.{channel}.max_bot_turns",
    "not_mentioned": "mention the bot, or set channels.{channel}.mention: never",
    "mentions_others": "mention the bot; the message speaks to others",
    "duplicate": "nothing: the same message was taken in before",
    "bad_signature": "check the signing secret of channels.{channel}, and that the file is exact",
    "unreadable_body": "nothing: the body is not what the platform sends; is the file complete?",
    "self": "nothing: the bot wrote this itself",
}
_NO_MESSAGE = "nothing: this says nothing to the bot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of a message, and the words that the model would be given of it."""

    way: Route
    accepted: Accepted
    words: str


async def explain(
    config: Config, channel: str, payload: str, *, real_store: Path | None = None
) -> str:
    """Say what would become of a payload: a body, or headers, an empty line and a body.

    real_store: a store file whose threads, duplicates and chosen sessions shall count; it is only
    read. Raise ConfigError for an unknown channel, StartupError when the store cannot be read.
    """
    section = config.channels.get(channel)
    if section is None:
        known = ", ".join(config.channels) or "none"
        raise ConfigError(f"config channels.{channel}: missing; channels in the file: {known}")
    opens = await asyncio.to_thread(load, CHANNEL_TYPES[section.type].adapter)
    adapter: ChannelAdapter = opens(channel, section.adapter_config, SystemClock())
    try:
        lines = {"channel": f"{channel} (type {section.type}), {await _account(adapter)}"}
        if not isinstance(adapter, PayloadReader):
            raise ConfigError(f"channels.{channel}: type {section.type} cannot read payloads")
        headers, body = split_headers(payload)
        read = adapter.read_payload(headers, body)
        if isinstance(read, Ignored):
            lines |= {"decision": "ignored", "reason": read.reason}
            lines["change"] = _CHANGES.get(read.reason, _NO_MESSAGE).format(channel=channel)
            return _shown(lines)
        message = await _completed(adapter, read, config.limits.enrich_deadline_s)
        decision = await _decide(config, rules_of(config, channel, adapter), message, real_store)
    finally:
        await adapter.close()
    return _shown(lines | _told(section, message, decision))


def split_headers(payload: str) -> tuple[Mapping[str, str], bytes]:
    """Headers and body of a recorded request; a request line is left out. A file that begins like
    a body is one.
    """
    head, gap, body = payload.replace("\r\n", "\n").partition("\n\n")
    lines = head.split("\n")
    if lines[0].rpartition(" ")[2].startswith("HTTP/"):
        lines = lines[1:]
    named = [line.partition(":") for line in lines]
    if not gap or not all(colon and _is_token(name) for name, colon, _ in named):
        return {}, payload.strip().encode()
    # The body is signed byte by byte: only the newline that an editor puts at the end is cut.
    return {name: value.strip() for name, _, value in named}, body.removesuffix("\n").encode()


def _is_token(name: str) -> bool:
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


async def _account(adapter: ChannelAdapter) -> str:
    """Who we are there; without it a mention of the bot is not recognised."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            health = await adapter.check()
    except TimeoutError:
        return "account not reached: mentions of the bot are not recognised"
    except ChannelBroken as error:
        return f"account broken: {error}"
    facts = ", ".join(f"{name} {value}" for name, value in health.facts.items() if value)
    known = facts or "no answer: mentions of the bot are not recognised"
    return f"account {health.state}{': ' + health.detail if health.detail else ''} ({known})"


async def _completed(
    adapter: ChannelAdapter, message: InboundMessage, deadline_s: float
) -> InboundMessage:
    """The message with its names, as far as the platform tells them."""
    if not message.is_incomplete or not isinstance(adapter, Enricher):
        return replace(message, is_incomplete=False)
    try:
        async with asyncio.timeout(deadline_s):
            return replace(await adapter.enrich(message.raw), is_incomplete=False)
    except (TimeoutError, ClawbotError):
        return replace(message, is_incomplete=False)


async def _decide(
    config: Config, rules: ChannelRules, message: InboundMessage, real_store: Path | None
) -> Decision:
    """Take the message in, in a store of its own, at the time at which it was sent."""
    now_ms = message.sent_at_ms or SystemClock().now_ms()

    def unit(tx: Transaction) -> Decision:
        directory = StoredDirectory(tx, message, now_ms)
        way = route(message, rules.policy.scope, directory, can_edit=rules.can_edit)
        accepted = admit(tx, message, rules, now_ms)
        return Decision(way=way, accepted=accepted, words=_words(tx, message, accepted))

    async with _folder() as folder:
        if real_store is not None:
            await asyncio.to_thread(_copy, real_store, folder / parts.STORE_FILE)
        store = await parts.open_store(config.model_copy(update={"state_dir": folder}))
        try:
            return await store.write(unit)
        finally:
            await store.close()


@asynccontextmanager
async def _folder() -> AsyncIterator[Path]:
    made = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="clawbot-explain-")
    try:
        yield Path(made.name)
    finally:
        await asyncio.to_thread(made.cleanup)


def _copy(source: Path, target: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.Error as error:
        raise StartupError(f"store {source}: cannot be read: {error}") from error


def _words(tx: Transaction, message: InboundMessage, accepted: Accepted) -> str:
    """What the model would read; the plain text where nobody would be given it."""
    if accepted.decision != "queued" or accepted.is_duplicate:
        return message.text
    found = tx.conn.execute(select(inbox_rows).where(inbox_rows.c.id == accepted.inbox_id))
    entries = user_entries([inbox.row_of(found.mappings().one())], [])
    return "\n".join(entry.text for entry in for_request(entries))


def _told(section: ChannelConfig, message: InboundMessage, decision: Decision) -> dict[str, str]:
    way, accepted, sender = decision.way, decision.accepted, message.sender
    reason = accepted.reason
    if not reason:
        addressed = message.mentioned or message.chat_type == "dm"
        reason = "addressed" if addressed else "follows a thread or needs no mention"
    lines = {
        "message": f"{message.identity}{' (a duplicate)' if accepted.is_duplicate else ''}",
        "sender": f"{sender.id} {sender.name}{', a bot' if sender.is_bot else ''}".strip(),
        "chat": f"{message.chat_id}, {message.chat_type.value}",
        "thread": message.thread or "none",
        "mentioned": "yes" if message.mentioned else "no",
        "decision": accepted.decision,
        "reason": reason,
        "session": accepted.session_key or f"{way.session} (if it were answered)",
        "place": f"{way.place.chat_id}, thread {way.place.thread or 'none'}",
        "text": decision.words,
    }
    if accepted.reason in _CHANGES:
        lines["change"] = _CHANGES[accepted.reason].format(
            channel=section.name, sender=sender.id, chat=message.chat_id
        )
    return lines


def _shown(lines: Mapping[str, str]) -> str:
    return "\n".join(
        f"{name:<10} {_indented(value.split(chr(10)))}" for name, value in lines.items()
    )


def _indented(lines: Iterable[str]) -> str:
    return f"\n{'':<11}".join(lines)
