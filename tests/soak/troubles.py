"""What fails in the soak: calls, links, tokens, processes, the daemon, the database, the disk."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.matrix.platforms import Platform
from tests.postgres import Cluster
from tests.process.test_outages import full_disk
from tests.soak.host import Host

FAULTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "slack": {
        "chat.postMessage": ["http:503", "reset_after", "reset_before", "ratelimited:1"],
        "chat.update": ["http:503", "reset_after", "slow:1"],
    },
    "feishu": {
        "message.create": ["reset_after", "reset_before", "http:503"],
        "message.reply": ["reset_after", "html", "error:2200"],
        "card.content": ["error:300317", "html", "reset_before"],
        "tenant_access_token": ["http:502", "reset_before"],
    },
    "wecom": {"send": ["http:502", "reset_before", "reset_after"], "gettoken": ["http:502"]},
    "wechat": {"send": ["http:502", "reset_before", "reset_after"], "stable_token": ["http:502"]},
}


def simulator_of(platform: Platform) -> Any:
    """What stands behind the platform's doors."""
    return getattr(platform, platform.channel)


class Troubles:
    """Makes them, one after another. happened: how often each."""

    def __init__(
        self, host: Host, platforms: Mapping[str, Platform], seed: int, cluster: Cluster | None
    ) -> None:
        self._host = host
        self._platforms = platforms
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._cluster = cluster
        self.happened: Counter[str] = Counter()
        self.problems: list[str] = []

    async def run(self, end_s: float, first: Sequence[str] = ()) -> None:
        """Everything once, or what is given, then whatever comes, with pauses, until `end_s` of the
        monotonic clock.
        """
        acts: dict[str, tuple[float, Callable[[], Awaitable[None]]]] = {
            "calls fail": (6, self._fail_calls),
            "process killed": (5, self._kill_part),
            "link lost": (2, self._lose_links),
            "token ended": (1, self._end_tokens),
            "daemon killed": (1, self._kill_daemon),
            "daemon restarted": (1, self._restart_daemon),
        }
        if self._cluster is None:
            acts["disk full"] = (1, self._fill_disk)
        else:
            acts["database killed"] = (1, self._kill_database)
            acts["database restarted"] = (1, self._restart_database)
        names = [*reversed(first)] or self._chance.sample(sorted(acts), len(acts))
        while names or time.monotonic() < end_s:
            name = (
                names.pop()
                if names
                else self._chance.choices(list(acts), [weight for weight, _ in acts.values()])[0]
            )
            await acts[name][1]()
            self.happened[name] += 1
            await asyncio.sleep(self._chance.uniform(0.5, 5.0))

    async def _fail_calls(self) -> None:
        name = self._chance.choice(list(self._platforms))
        faults = simulator_of(self._platforms[name]).faults
        faults.clear()  # what nothing ran into must not pile up
        for call, ways in FAULTS[name].items():
            faults.fail_next(call, self._chance.choice(ways), self._chance.randint(1, 2))

    async def _kill_part(self) -> None:
        """Any of the daemon's children; its supervisor starts it again."""
        self._host.is_calm.clear()
        children = [pid for pid, part in self._host.family()][1:]
        if children:
            with suppress(ProcessLookupError):
                os.kill(self._chance.choice(children), signal.SIGKILL)
        await self._host.until_up()

    async def _lose_links(self) -> None:
        for name in ("slack", "feishu"):
            if name in self._platforms:
                await simulator_of(self._platforms[name]).drop_connection()

    async def _end_tokens(self) -> None:
        for name in ("feishu", "wecom", "wechat"):
            if name in self._platforms:
                ended = simulator_of(self._platforms[name]).expire_token()
                if ended is not None:
                    await ended

    async def _kill_daemon(self) -> None:
        self._host.is_calm.clear()
        await self._host.running.kill()
        await self._host.begin()

    async def _restart_daemon(self) -> None:
        self._host.is_calm.clear()
        if code := await self._host.stop():
            self.problems.append(f"asked to stop, the daemon ended with {code}")
        await self._host.begin()

    async def _fill_disk(self) -> None:
        self._host.is_calm.clear()
        with full_disk(self._host.running):
            await asyncio.sleep(self._chance.uniform(1.0, 4.0))
        await self._host.until_up()

    async def _kill_database(self) -> None:
        assert self._cluster is not None
        self._host.is_calm.clear()
        await asyncio.to_thread(self._cluster.crash)
        await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        self._cluster.resume()  # not in a thread: the server ends with the one that began it
        await self._host.until_up()

    async def _restart_database(self) -> None:
        assert self._cluster is not None
        self._host.is_calm.clear()
        await asyncio.to_thread(self._cluster.halt)
        await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        self._cluster.resume()
        await self._host.until_up()

    def end(self) -> None:
        """No call fails any more."""
        for platform in self._platforms.values():
            simulator_of(platform).faults.clear()
