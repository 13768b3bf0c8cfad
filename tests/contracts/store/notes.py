"""Clauses of `notes`: one change at a time, an end, and a channel of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from clawbot.ports import Store
from clawbot.store import notes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import NOW_MS

LASTS_MS = 1_000


async def change(
    store: Store,
    maker: Callable[[str | None], str | None],
    *,
    channel: str = "desk",
    now_ms: int = NOW_MS,
) -> str | None:
    """Change the note "k"; the text before."""
    unit = partial(
        notes.change, channel=channel, key="k", change=maker, lasts_ms=LASTS_MS, now_ms=now_ms
    )
    return await store.write(unit)


def one_more(text: str | None) -> str:
    """Count."""
    return str(int(text or 0) + 1)


async def read(store: Store, *, channel: str = "desk", now_ms: int = NOW_MS) -> str | None:
    """What the note says."""
    return await change(store, lambda text: text, channel=channel, now_ms=now_ms)


class NoteClauses:
    """What an adapter may rely on that shares a count with other processes."""

    async def test_two_processes_count_on_in_one_note(self, ground: Ground) -> None:
        one, two = await ground.open("a"), await ground.open("b")
        counted = await asyncio.gather(*(change(store, one_more) for store in [one, two] * 20))
        assert sorted(int(text or 0) for text in counted) == list(range(40))
        assert await read(one) == "40"

    async def test_a_note_outlives_its_process(self, ground: Ground) -> None:
        store = await ground.open("a")
        await change(store, one_more)
        await store.close()
        assert await read(await ground.open("b")) == "1"

    async def test_a_note_ends_with_its_time(self, ground: Ground) -> None:
        store = await ground.open("a")
        await change(store, one_more)
        assert await read(store, now_ms=NOW_MS + LASTS_MS - 1) == "1"
        assert await read(store, now_ms=NOW_MS + 2 * LASTS_MS) is None

    async def test_a_note_can_be_dropped(self, ground: Ground) -> None:
        store = await ground.open("a")
        await change(store, one_more)
        assert await change(store, lambda _text: None) == "1"
        assert await read(store) is None

    async def test_a_note_is_its_channels_own(self, ground: Ground) -> None:
        store = await ground.open("a")
        await change(store, one_more)
        assert await read(store, channel="other") is None
