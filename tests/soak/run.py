"""One soak: people who talk all the time, troubles beside them, and the count at the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clawbot.errors import StoreUnavailable
from clawbot.ports import Store
from clawbot.store import inbox, outbox, processes
from tests.matrix.matrix import OPEN_STATES, channels_unsure, unknown_in
from tests.matrix.platforms import Platform, Slack
from tests.matrix.talk import Asked, Asks, Seen
from tests.soak import household
from tests.soak.host import PATIENCE_S, Host
from tests.soak.troubles import Troubles

CHATS = 6  # of each platform, at once
KINDS: tuple[Asks, ...] = ("tool", "tool", "tool", "grow", "long")
MOST_GROWN_BYTES = 100 * 2**20
LEAST_MINUTES = 2.0  # before that a part may still load something late
MOST_FILES = 40


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of it. given_up: messages that a platform gave up to deliver and nobody accepted;
    memory_mb: by part.
    """

    store: str
    minutes: float
    messages: int = 0
    lost: int = 0
    doubled: int = 0
    unknown: int = 0
    given_up: int = 0
    happened: dict[str, int] = field(default_factory=dict)
    memory_mb: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    problems: list[str] = field(default_factory=list)


class Soak:
    """One run."""

    def __init__(
        self,
        config: Path,
        store: Store,
        platforms: Mapping[str, Platform],
        report: Report,
        host: Host,
        troubles: Troubles,
    ) -> None:
        self._config = config
        self._store = store
        self._platforms = platforms
        self._report = report
        self._host = host
        self._troubles = troubles
        self._chance = random.Random()  # noqa: S311 - no secret
        self._asked: dict[str, list[Asked]] = {name: [] for name in platforms}
        self._whole: set[int] = set()
        self._memory: dict[str, household.Memory] = {}
        self._number = 0
        self._is_over = False

    async def run(self, minutes: float, first: Sequence[str] = ()) -> Report:
        """Let it all happen, some of it first and in order, then let it calm down, then count."""
        try:
            await self._host.begin()
            end_s = time.monotonic() + minutes * 60
            async with asyncio.TaskGroup() as group:
                beside = [
                    group.create_task(self._look(), name="look"),
                    group.create_task(self._let_through(), name="let through"),
                ]
                chats = [
                    group.create_task(self._talk(name), name=f"chat {name} {number}")
                    for name in self._platforms
                    for number in range(CHATS)
                ]
                await self._troubles.run(end_s, first)
                self._is_over = True
                self._troubles.end()
                await asyncio.wait(chats)
                await self._until_quiet()
                for task in beside:
                    task.cancel()
            await self._count()
        finally:
            await self._host.close()
        self._report.problems += self._troubles.problems
        return self._report

    # -- people ------------------------------------------------------------------------------------

    async def _talk(self, name: str) -> None:
        """One person asks, waits for the answer, asks again."""
        platform, asked = self._platforms[name], None
        while not self._is_over:
            self._number += 1
            number, kind = self._number, self._chance.choice(KINDS)
            if asked is None or (isinstance(platform, Slack) and len(asked.place) > 1):
                asked = await platform.say(number, kind)
            else:
                asked = await platform.say_again(asked, number, kind)
            self._asked[name].append(asked)
            give_up_s = time.monotonic() + PATIENCE_S
            while number not in self._whole and time.monotonic() < give_up_s:
                if platform.keeps_unknown and await self._has_unknown(asked.chat_id):
                    asked = None  # somebody new goes on
                    break
                await asyncio.sleep(0.2)
            await asyncio.sleep(self._chance.uniform(0.2, 2.0))

    async def _has_unknown(self, chat_id: str) -> bool:
        with suppress(StoreUnavailable):
            return bool(await self._store.read(partial(unknown_in, chat_id=chat_id)))
        return False

    async def _look(self) -> None:
        """See what is answered, and what the processes hold."""
        next_s = 0.0
        while True:
            for name, platform in self._platforms.items():
                seen = Seen(platform.sent())
                self._whole |= {a.number for a in self._asked[name] if seen.is_whole(a)}
            if time.monotonic() > next_s:
                next_s = time.monotonic() + 2.0
                await self._weigh()
            await asyncio.sleep(0.3)

    async def _weigh(self) -> None:
        """See what the processes hold that work, so have loaded nearly all."""
        with suppress(StoreUnavailable):
            working = {row.pid for row in await self._store.read(processes.live)}
            for pid, part in self._host.family():
                held = household.resident_bytes(pid)
                if held is not None and (pid in working or part == "daemon"):
                    self._memory.setdefault(part, household.Memory()).note(pid, held)

    async def _let_through(self) -> None:
        """WeChat and WeCom try three times only: let them while there is somebody to hear them."""
        for platform in self._platforms.values():
            platform.hold_back()
        while True:
            await self._host.is_calm.wait()
            for platform in self._platforms.values():
                platform.go_on()
            await asyncio.sleep(0)
            for platform in self._platforms.values():
                platform.hold_back()
            await asyncio.sleep(1.0)

    # -- the end -----------------------------------------------------------------------------------

    async def _until_quiet(self) -> None:
        """Wait until every message and every reply has ended."""
        deadline = time.monotonic() + PATIENCE_S
        for platform in self._platforms.values():
            await platform.settle()
        while time.monotonic() < deadline:
            with suppress(StoreUnavailable):
                states = {*await self._store.read(inbox.count_by_state)}
                states |= {*await self._store.read(outbox.count_by_state)}
                if not states & OPEN_STATES:
                    return
            await asyncio.sleep(0.2)
        self._report.problems.append(f"it does not end: {states}")

    async def _count(self) -> None:
        report = self._report
        for name, platform in self._platforms.items():
            seen = Seen(platform.sent())
            for asked in self._asked[name]:
                await self._judge(name, platform, seen, asked)
            report.problems += [
                f"{name}: nobody asked for {stray}" for stray in seen.strays if not stray.is_notice
            ]
            if platform.unfinished():
                report.problems.append(f"{name}: {platform.unfinished()} seem to grow still")
        replies = await self._store.read(outbox.count_by_state)
        report.unknown = replies.get("unknown", 0)
        channels = await self._store.read(channels_unsure)
        sure = {each.channel for each in self._platforms.values() if not each.keeps_unknown}
        if wrong := sure & channels:
            report.problems.append(f"replies stay unknown that could be known: {wrong}")
        if other := {each: n for each, n in replies.items() if each not in {"sent", "unknown"}}:
            report.problems.append(f"replies that ended otherwise: {other}")
        report.messages = sum(map(len, self._asked.values()))
        report.happened = dict(self._troubles.happened)
        await self._count_household()

    async def _judge(self, name: str, platform: Platform, seen: Seen, asked: Asked) -> None:
        is_doubled = seen.is_doubled(asked, platform.most_parts if asked.kind == "long" else 1)
        is_whole = seen.is_whole(asked)
        if not is_whole and platform.keeps_unknown:
            is_whole = await self._has_unknown(asked.chat_id)
        if not is_whole and platform.has_given_up(asked):
            self._report.given_up += 1
            return
        self._report.lost += not is_whole
        self._report.doubled += is_doubled
        if not is_whole or is_doubled or seen.is_astray(asked):
            told = f"{seen.marks.get(asked.number)}, {platform.deliveries_of(asked)}"
            self._report.problems.append(f"{name}: {asked}, {told}")

    async def _count_household(self) -> None:
        report, mb = self._report, 2**20
        for part, memory in sorted(self._memory.items()):
            report.memory_mb[part] = (
                f"{memory.first // mb} first, {memory.last // mb} last, {memory.most // mb} most"
            )
            if memory.grown > MOST_GROWN_BYTES and report.minutes >= LEAST_MINUTES:
                report.problems.append(f"one {part} grew by {memory.grown // mb} MB")
        if code := await self._host.stop():
            report.problems.append(f"at its end the daemon's exit code was {code}")
        if left := household.of_config(self._config):
            report.problems.append(f"processes that outlive the daemon: {left}")
        report.rows = dict(await self._store.read(household.rows_of))
        most = report.messages + len(self._platforms)
        if any(report.rows[table] > most for table in ("inbox", "outbox", "turns")):
            report.problems.append(f"more rows than messages: {report.rows}")
        if report.rows["owned sessions"]:
            report.problems.append("sessions are owned by nobody that lives")
        state_dir = self._config.parent / "state"
        theirs = {state_dir / name for name in ("work", "saved", "transcripts")}
        report.files = sum(
            not theirs & {*path.parents} for path in state_dir.rglob("*") if not path.is_dir()
        )
        if report.files > MOST_FILES:
            report.problems.append(f"{report.files} files are left in the state directory")
