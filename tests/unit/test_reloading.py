"""What of a changed config counts at once, what waits for a restart, and when a file is read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.config import Config, load_config
from clawbot.reloading import ConfigWatch, differences, reloaded

BEGIN = """\
state_dir: state
model: offline
owners: ['slack:U1']
workers: 1
budgets: {day: {usd: 1}}
tools: {rules: [{do: deny, tool: bash}], at_once: 2}
channels:
  slack:
    bot_token: xoxb-made-up
    app_token: xapp-made-up
    allow: {dm: [U1]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clawbot.yaml"
    path.write_text(BEGIN)
    return path


def read(path: Path, *changes: tuple[str, str]) -> Config:
    text = BEGIN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return load_config(path)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("do: deny", "do: ask", "tools.rules"),
        ("at_once: 2", "at_once: 2, ask_dangerous: false", "tools.ask_dangerous"),
        ("at_once: 2", "at_once: 2, offered: [bash]", "tools.offered"),
        ("'slack:U1'", "'slack:U2'", "owners"),
        ("workers: 1", "workers: 1\ninstructions: be kind", "instructions"),
        ("usd: 1", "usd: 2", "budgets.day.usd"),
        ("dm: [U1]", "dm: [U2]", "channels.slack.allow.dm"),
        ("    allow", "    mention: never\n    allow", "channels.slack.mention"),
        ("    allow", "    bots: allow\n    allow", "channels.slack.bots"),
        ("    allow", "    tools: [glob]\n    allow", "channels.slack.tools"),
        ("    allow", "    instructions: x\n    allow", "channels.slack.instructions"),
    ],
)
def test_what_may_change_at_run_time_counts_at_once(
    file: Path, old: str, new: str, key: str
) -> None:
    became = reloaded(load_config(file), changed := read(file, (old, new)))
    assert (became.changed, became.waiting) == ((key,), ())
    assert differences(became.config, changed) == []


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("workers: 1", "workers: 2", "workers"),
        ("state_dir: state", "state_dir: elsewhere", "state_dir"),
        ("at_once: 2", "at_once: 3", "tools.at_once"),
        ("at_once: 2", "sandbox: none", "tools.sandbox"),
        ("xoxb-made-up", "xoxb-another", "channels.slack.bot_token"),
        ("    allow", "    queue: interrupt\n    allow", "channels.slack.queue"),
        ("    allow", "    scope: user\n    allow", "channels.slack.scope"),
        ("channels:", "channels:\n  other: {type: slack, bot_token: x, app_token: y}", "other"),
        ("usd: 1}", "usd: 1}, prices: {'a:b': {input: 1, output: 1}}", "budgets.prices.a:b"),
    ],
)
def test_all_else_waits_for_a_restart_and_is_named(
    file: Path, old: str, new: str, key: str
) -> None:
    current = load_config(file)
    became = reloaded(current, read(file, (old, new)))
    assert became.changed == ()
    assert any(path.endswith(key) for path in became.waiting), became.waiting
    assert differences(became.config, current) == []
    assert not any("made-up" in path or "another" in path for path in became.waiting)


def write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


def change(file: Path, how: str) -> None:
    """Let it say `ask`, which is as long as `deny` with a space."""
    before, text = file.stat(), BEGIN.replace("deny", "ask ")
    if how == "replaced":
        other = file.with_suffix(".new")
        other.write_text(text)
        other.replace(file)
    else:
        file.write_text(text)
    if how == "time kept":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


class SteppedClock(SystemClock):
    """A look at the file is taken when a test says so."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        self._taken: asyncio.Event | None = None

    async def sleep(self, seconds: float) -> None:
        if self._taken is not None:
            self._taken.set()
        self._taken = await self._steps.get()

    async def step(self, count: int = 2) -> None:
        """Let so many looks be taken."""
        for _ in range(count):
            taken = asyncio.Event()
            self._steps.put_nowait(taken)
            await asyncio.wait_for(taken.wait(), 20)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def applied() -> list[Config]:
    return []


@pytest.fixture
async def watch(
    file: Path, clock: SteppedClock, applied: list[Config]
) -> AsyncIterator[ConfigWatch]:
    config = await asyncio.to_thread(load_config, file)
    watch = ConfigWatch(config, clock, applied.append)
    running = asyncio.create_task(watch.run(file))
    yield watch
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


async def test_a_file_that_stays_the_same_is_not_read(
    watch: ConfigWatch, clock: SteppedClock, applied: list[Config]
) -> None:
    await clock.step(3)
    assert (applied, watch.facts()) == ([], {})


async def test_a_file_that_is_still_being_written_is_not_read(
    file: Path, watch: ConfigWatch, clock: SteppedClock, applied: list[Config]
) -> None:
    await clock.step()
    half = BEGIN.partition("tools:")[0]  # a config as good as any, without its rules
    write(file, half)
    await clock.step(1)
    write(file, BEGIN + "    mention: never\n")
    await clock.step(1)
    assert applied == []
    await clock.step(1)
    assert [len(config.tools.rules) for config in applied] == [1]
    assert watch.facts() == {}


@pytest.mark.parametrize("how", ["written", "replaced", "time kept"])
async def test_a_changed_file_is_read_however_it_was_changed(
    file: Path, watch: ConfigWatch, clock: SteppedClock, applied: list[Config], how: str
) -> None:
    change(file, how)
    await clock.step()
    assert [config.tools.rules[0].do for config in applied] == ["ask"]
    assert watch.facts() == {}


async def test_a_bad_file_changes_nothing_and_is_told_until_it_is_mended(
    file: Path, watch: ConfigWatch, clock: SteppedClock, applied: list[Config]
) -> None:
    write(file, BEGIN.replace("deny", "forbid"))
    await clock.step()
    assert applied == []
    assert "stays: config tools.rules.0.do (line 6): want" in watch.facts()["config"]
    write(file, None)
    await clock.step()
    assert "cannot be read" in watch.facts()["config"]
    write(file, BEGIN.replace("deny", "ask"))
    await clock.step()
    assert [config.tools.rules[0].do for config in applied] == ["ask"]
    assert watch.facts() == {}


async def test_what_waits_for_a_restart_is_told_as_long_as_it_does(
    file: Path, watch: ConfigWatch, clock: SteppedClock, applied: list[Config]
) -> None:
    write(file, BEGIN.replace("workers: 1", "workers: 2").replace("deny", "ask"))
    await clock.step()
    assert [(one.workers, one.tools.rules[0].do) for one in applied] == [(1, "ask")]
    assert watch.facts() == {"config": "changed, and needs a restart for: workers"}
    write(file, BEGIN)
    await clock.step()
    assert (applied[-1].workers, applied[-1].tools.rules[0].do) == (1, "deny")
    assert watch.facts() == {}
