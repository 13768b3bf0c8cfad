"""Pushes rows through an adapter, the gate, the router and a store, and says what became of each.

Every row that is asked for has a store and an adapter of its own, and the rows named in its `after`
are fed into them first. Everybody is allowed; in groups the bot must be mentioned; all else is the
default of the config. Enrichment runs to its end against the stubbed API. No turn is run.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select
from structlog.testing import capture_logs
from structlog.typing import EventDict

from clawbot import parts
from clawbot.channels import CHANNEL_TYPES, load
from clawbot.config import load_config
from clawbot.enrichment import Enrichment
from clawbot.errors import ChannelBroken
from clawbot.intake import Intake
from clawbot.messages import Accepted, InboundMessage
from clawbot.parts.adapter import rules_of
from clawbot.ports import ChannelAdapter, Enricher, Store
from clawbot.store.schema import inbox
from tests.payloads.platforms import Given, Platform
from tests.payloads.rows import Row, ShiftedClock
from tests.payloads.stub_api import StubApi, stub_api

DELIVERED = frozenset({"queued", "received", "command"})
LONGEST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a row, as `score.py` reads it."""

    id: str
    deliver: bool = False
    text: str | None = None
    chat_id: str | None = None
    sender: str | None = None
    chat_type: str | None = None
    thread: str | None = None
    session_key: str | None = None
    mentioned: bool | None = None
    reason: str = ""
    http: int | None = None
    response: Any = None
    seconds: float | None = None
    error: str | None = None

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), ensure_ascii=True)


@dataclass(slots=True)
class Doorkeeper:
    """An `Accept` that remembers what it was given and what it decided."""

    intake: Intake
    taken: list[tuple[InboundMessage, Accepted]] = field(default_factory=list)

    async def __call__(self, message: InboundMessage) -> Accepted:
        """Take a message in."""
        accepted = await self.intake.accept(message)
        self.taken.append((message, accepted))
        return accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One adapter before one store."""

    platform: Platform
    api: StubApi
    clock: ShiftedClock
    channel: str
    store: Store
    adapter: ChannelAdapter
    intake: Intake

    async def feed(self, row: Row) -> Result:
        """Push a row through and complete what it left to complete."""
        self.clock.set(row)
        self.api.row = row
        keeper = Doorkeeper(self.intake)
        given, error, started = Given(), None, time.monotonic()
        with capture_logs(processors=[_keep_exception]) as logs:
            try:
                async with asyncio.timeout(LONGEST_S):
                    given = await self.platform.push(self.adapter, keeper, row, self.clock)
            except Exception as escaped:  # noqa: BLE001  # it is the result
                error = f"{type(escaped).__name__}: {escaped}"
            seconds = round(time.monotonic() - started, 3)
            await self._enrich()
        return replace(
            await self._outcome(row, keeper),
            reason=_reason(keeper, logs),
            http=given.http,
            response=given.response,
            seconds=seconds,
            error=error or _caught(logs),
        )

    async def _enrich(self) -> None:
        if not isinstance(self.adapter, Enricher):
            return
        enrichment = Enrichment(self.store, self.clock, "payloads", self.channel, self.adapter)
        while await enrichment.run_once():
            pass

    async def _outcome(self, row: Row, keeper: Doorkeeper) -> Result:
        """What was taken in, with the text as it stands after enrichment."""
        if not keeper.taken:
            return Result(id=row.id)
        message, accepted = keeper.taken[-1]
        text, row_id = message.text, accepted.inbox_id
        if row_id is not None:
            query = select(inbox.c.text).where(inbox.c.id == row_id)
            text = await self.store.read(lambda tx: tx.conn.execute(query).scalar_one()) or text
        return Result(
            id=row.id,
            deliver=accepted.decision in DELIVERED and not accepted.is_duplicate,
            text=text,
            chat_id=message.chat_id,
            sender=message.sender.id,
            chat_type=message.chat_type.value,
            thread=message.thread,
            session_key=accepted.session_key,
            mentioned=message.mentioned,
        )


def _reason(keeper: Doorkeeper, logs: Sequence[EventDict]) -> str:
    """The gate's reason code, else the one that the adapter logged."""
    if keeper.taken:
        accepted = keeper.taken[-1][1]
        return accepted.reason or accepted.decision
    reasons = [str(entry["reason"]) for entry in logs if entry.get("reason")]
    return next(iter([*reasons, *(str(entry["event"]) for entry in logs)]), "")


def _keep_exception(_logger: object, _method: str, event: EventDict) -> EventDict:
    if event.get("exc_info") is True:
        event["exc_info"] = sys.exc_info()[1]
    return event


def _caught(logs: Sequence[EventDict]) -> str | None:
    """An exception that was caught at the boundary of a message is a fault all the same."""
    faults = (f"{each['event']}: {each['exc_info']!r}" for each in logs if each.get("exc_info"))
    return next(faults, None)


@asynccontextmanager
async def ground(platform: Platform, row: Row, template: Path) -> AsyncIterator[Ground]:
    """An adapter that is configured as the row says, before a store of its own."""
    async with stub_api(platform.answer_call) as api:
        with tempfile.TemporaryDirectory(prefix="payloads-") as folder:
            path = Path(folder) / "clawbot.yaml"
            keys = platform.channel_keys(row, api.url)
            channel = str(keys["type"])
            await asyncio.to_thread(_prepare, path, channel, keys, template)
            config = await asyncio.to_thread(load_config, path, environ={})
            store, clock = await parts.open_store(config), ShiftedClock()
            clock.set(row)
            api.row = row
            opens = await asyncio.to_thread(load, CHANNEL_TYPES[channel].adapter)
            own_keys = config.channels[channel].adapter_config
            adapter: ChannelAdapter = opens(channel, own_keys, clock)
            try:
                with capture_logs():
                    await _introduce(adapter)
                yield Ground(
                    platform=platform,
                    api=api,
                    clock=clock,
                    channel=channel,
                    store=store,
                    adapter=adapter,
                    intake=Intake(store, clock, rules_of(config, channel, adapter), "payloads"),
                )
            finally:
                await adapter.close()
                await store.close()


async def _introduce(adapter: ChannelAdapter) -> None:
    """Let the adapter learn who it is; a row may say nothing of that."""
    try:
        await adapter.check()
    except ChannelBroken:
        return


def _prepare(path: Path, channel: str, keys: Mapping[str, Any], template: Path) -> None:
    """A config in which everybody is allowed, and a store that is migrated already."""
    everyone = {"dm": ["*"], "groups": ["*"], "senders": ["*"]}
    state_dir = path.parent / "state"
    state_dir.mkdir(mode=0o700)
    shutil.copy(template, state_dir / parts.STORE_FILE)
    config = {
        "state_dir": str(state_dir),
        "model": "offline",
        "channels": {channel: {**keys, "allow": everyone, "mention": "required"}},
    }
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML


@asynccontextmanager
async def store_template() -> AsyncIterator[Path]:
    """An empty store with its tables, to be copied for each row."""
    with tempfile.TemporaryDirectory(prefix="payloads-") as folder:
        path = Path(folder) / "clawbot.yaml"
        path.write_text(json.dumps({"state_dir": folder, "model": "offline"}), encoding="utf-8")
        config = await asyncio.to_thread(load_config, path, environ={})
        store = await parts.open_store(config)
        await store.close()
        yield Path(folder) / parts.STORE_FILE


async def run_row(platform: Platform, rows: Mapping[str, Row], row: Row, template: Path) -> Result:
    """What becomes of a row after those that must come before it."""
    async with ground(platform, row, template) as at:
        for earlier in _before(rows, row):
            await at.feed(earlier)
        return await at.feed(row)


def _before(rows: Mapping[str, Row], row: Row) -> list[Row]:
    """The rows that must come before, the first one first."""
    found: list[Row] = []
    for name in row.after:
        for each in (*_before(rows, rows[name]), rows[name]):
            if each not in found:
                found.append(each)
    return found


async def run(platform: Platform, rows: Mapping[str, Row]) -> AsyncIterator[Result]:
    """The results of all rows, in their order."""
    async with store_template() as template:
        for row in rows.values():
            try:
                yield await run_row(platform, rows, row, template)
            except Exception as error:  # noqa: BLE001  # one row must not end the others
                yield Result(id=row.id, error=f"not run: {type(error).__name__}: {error}")
