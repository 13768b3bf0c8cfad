"""The supervisor with real processes: what ends comes back alone, what stops leaves nothing."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.errors import StoreAway, StoreUnavailable
from clawbot.ports import Part
from clawbot.process import hosting
from clawbot.process.child import ChildProcess
from clawbot.process.hosting import HostedPart
from clawbot.process.stopping import Stopping
from clawbot.supervisor import (
    EXIT_BAD_CONFIG,
    EXIT_STORE_AWAY,
    Child,
    ChildState,
    ChildStatus,
    Hooks,
    RestartPolicy,
    Supervisor,
)
from tests.process.programs import BehavedPart, child
from tests.process.waiting import eventually, is_alive

QUICK = RestartPolicy(first_delay_s=0.01, budget=2, degraded_delay_s=600)
PATIENT = RestartPolicy(first_delay_s=0.01, budget=1000)


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def program(*arguments: object) -> Process:
    """Start one of the programs; whoever starts it waits for its end."""
    command = (sys.executable, "-m", "tests.process.programs", *map(str, arguments))
    return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)


class Run:
    """A supervisor that runs as a task, and what it told."""

    def __init__(self, file: Path, children: Sequence[Child], policy: RestartPolicy) -> None:
        self.file = file
        self.file.touch()
        self.released: list[str] = []
        self.history: list[tuple[str, ChildState]] = []
        self.is_ready = False
        self.stopping = Stopping()
        self.supervisor = Supervisor(
            children,
            hooks=Hooks(ended=self._ended, changed=self._changed, ready=self._ready),
            clock=SystemClock(),
            policy=policy,
        )
        self.task = asyncio.create_task(self.supervisor.run(self.stopping))

    async def _ended(self, process_id: str) -> None:
        self.released.append(process_id)

    def _changed(self, statuses: Sequence[ChildStatus]) -> None:
        self.history += [(one.name, one.state) for one in statuses]

    def _ready(self) -> None:
        self.is_ready = True

    def notes(self, word: str) -> list[list[str]]:
        lines = [line.split() for line in self.file.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == word]

    def pids(self, name: str) -> list[int]:
        return [int(pid) for pid_of, pid in self.notes("began") if pid_of.startswith(f"{name}-")]

    def state(self, name: str) -> ChildStatus:
        return next(one for one in self.supervisor.statuses if one.name == name)

    async def until(self, name: str, state: ChildState) -> None:
        await eventually(lambda: self.state(name).state is state)

    async def stop(self) -> int:
        self.stopping.request()
        return await self.task


Start = Callable[..., Run]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    runs: list[Run] = []

    def begin(*children: Child, policy: RestartPolicy = QUICK) -> Run:
        runs.append(Run(tmp_path / "notes", children, policy))
        return runs[-1]

    yield begin
    for run in runs:
        run.stopping.request()
        run.stopping.request()
        await asyncio.wait([run.task])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes"


async def test_children_run_until_they_are_asked_to_stop_and_then_drain(
    start: Start, file: Path
) -> None:
    run = start(child(file, "one", "steady"), child(file, "two", "steady"))
    await eventually(lambda: run.is_ready)
    assert {one.state for one in run.supervisor.statuses} == {ChildState.UP}
    assert not run.released
    assert await run.stop() == 0
    ids = sorted(one.process_id for one in run.supervisor.statuses)
    assert sorted(name for (name,) in run.notes("drained")) == ids
    assert sorted(name for (name,) in run.notes("closed")) == ids
    assert sorted(run.released) == ids
    assert {one.state for one in run.supervisor.statuses} == {ChildState.STOPPED}


async def test_a_killed_child_comes_back_alone_with_a_new_id(start: Start, file: Path) -> None:
    run = start(child(file, "one", "steady"), child(file, "two", "steady"))
    await eventually(lambda: run.is_ready)
    first, bystander = run.state("one"), run.state("two")
    os.kill(run.pids("one")[0], signal.SIGKILL)
    await eventually(lambda: len(run.pids("one")) == 2)
    await run.until("one", ChildState.UP)
    assert run.released == [first.process_id]
    assert run.state("one").process_id != first.process_id
    assert (run.state("one").restarts, run.state("one").exit_code) == (1, -signal.SIGKILL)
    assert run.state("two") == bystander
    assert await run.stop() == 0


async def test_a_child_that_falls_a_few_times_is_up_in_the_end(start: Start, file: Path) -> None:
    run = start(child(file, "one", "flaky:2"))
    await eventually(lambda: len(run.pids("one")) == 3)
    await run.until("one", ChildState.UP)
    assert run.state("one").restarts == 2


async def test_a_child_that_keeps_falling_is_degraded_and_the_others_go_on(
    start: Start, file: Path
) -> None:
    run = start(child(file, "one", "exit:3"), child(file, "two", "steady"))
    await run.until("one", ChildState.DEGRADED)
    assert len(run.pids("one")) == QUICK.budget + 1
    assert run.state("one").exit_code == 3
    await eventually(lambda: run.is_ready)
    assert run.state("two").state is ChildState.UP
    assert await run.stop() == 0


async def test_a_degraded_child_is_tried_now_and_then_and_is_up_when_it_works_again(
    start: Start, file: Path
) -> None:
    seldom = RestartPolicy(budget=0, degraded_delay_s=0.1)
    run = start(child(file, "one", "flaky:1"), policy=seldom)
    await eventually(lambda: len(run.pids("one")) == 2)
    await run.until("one", ChildState.UP)
    states = [state for _, state in run.history]
    assert states.index(ChildState.DEGRADED) < states.index(ChildState.UP)
    assert await run.stop() == 0


async def test_a_child_whose_store_is_away_is_never_degraded_for_it(
    start: Start, file: Path
) -> None:
    run = start(child(file, "one", f"exit:{EXIT_STORE_AWAY}"))
    await eventually(lambda: len(run.pids("one")) > QUICK.budget + 2)
    assert ("one", ChildState.DEGRADED) not in run.history
    assert await run.stop() == 0


@pytest.mark.parametrize("refusal", ["broken", "revoked"])
async def test_a_child_that_an_admin_must_mend_is_left_alone(
    start: Start, file: Path, refusal: str
) -> None:
    run = start(child(file, "one", refusal), child(file, "two", "steady"))
    await run.until("one", ChildState.BROKEN)
    await eventually(lambda: run.is_ready)
    assert run.state("one").exit_code == EXIT_BAD_CONFIG
    assert run.state("one").restarts == 0
    assert await run.stop() == 0


async def test_a_daemon_of_which_nothing_can_run_ends_as_badly_configured(
    start: Start, file: Path
) -> None:
    run = start(child(file, "one", "broken"), child(file, "two", "broken"))
    assert await run.task == EXIT_BAD_CONFIG


async def test_a_command_that_does_not_exist_is_tried_again_like_any_other(
    start: Start, file: Path
) -> None:
    absent = ChildProcess(command=("/nonexistent/command",), environ={}, kill_after_s=1)
    run = start(Child(name="one", run=absent))
    await run.until("one", ChildState.DEGRADED)
    assert await run.stop() == 0


async def test_a_child_that_does_not_drain_cuts_itself_off(start: Start, file: Path) -> None:
    run = start(child(file, "one", "stubborn"))
    await eventually(lambda: run.is_ready)
    assert await run.stop() == 1
    assert run.state("one").exit_code == 1
    assert not run.notes("drained")
    assert len(run.notes("closed")) == 1


async def test_a_child_that_never_worked_is_no_failure_of_the_stop(
    start: Start, file: Path
) -> None:
    ends = ChildProcess(command=("sleep", "600"), environ=dict(os.environ), kill_after_s=60)
    run = start(Child(name="one", run=ends), child(file, "two", "steady"))
    await run.until("two", ChildState.UP)
    assert await run.stop() == 0
    assert run.state("one").exit_code == -signal.SIGTERM


async def test_a_child_whose_loop_is_stuck_is_killed_after_its_time(
    start: Start, file: Path
) -> None:
    run = start(child(file, "one", "stuck", kill_after_s=0.1))
    await eventually(lambda: len(run.pids("one")) == 1)
    assert await run.stop() == 1
    assert run.state("one").exit_code == -signal.SIGKILL
    assert run.released == [run.state("one").process_id]


async def test_a_child_whose_loop_stands_still_is_killed_and_comes_back(
    start: Start, file: Path
) -> None:
    run = start(
        child(file, "one", "stuck", stuck_after_s=0.2), child(file, "two", "steady"), policy=PATIENT
    )
    await eventually(lambda: len(run.pids("one")) >= 2)
    assert not is_alive(run.pids("one")[0])
    assert run.state("one").exit_code == -signal.SIGKILL
    assert len(run.pids("two")) == 1


async def test_a_child_that_hangs_before_it_works_is_killed_and_tried_again_until_it_is_degraded(
    start: Start, file: Path
) -> None:
    hangs = ChildProcess(
        command=("sleep", "600"), environ=dict(os.environ), kill_after_s=60, ready_after_s=0.3
    )
    run = start(Child(name="one", run=hangs), child(file, "two", "steady"))
    await run.until("one", ChildState.DEGRADED)
    assert run.state("one").exit_code == -signal.SIGKILL
    assert not run.state("one").worked
    assert len(run.released) == QUICK.budget + 1
    assert ("one", ChildState.UP) not in run.history
    await eventually(lambda: run.is_ready)
    assert run.state("two").state is ChildState.UP
    assert len(run.pids("two")) == 1
    assert await run.stop() == 0


WAITS_TWELVE_TIMES = """
import os, socket, time
tie = socket.socket(fileno=int(os.environ["CLAWBOT_SUPERVISOR_FD"]))
for _ in range(12):
    tie.send(b"~")
    time.sleep(0.5)
tie.send(b"ready\\n")
time.sleep(600)
"""


async def test_a_child_that_waits_for_its_store_is_not_taken_for_one_that_hangs(
    start: Start,
) -> None:
    waits = ChildProcess(
        command=(sys.executable, "-I", "-S", "-c", WAITS_TWELVE_TIMES),
        environ=dict(os.environ),
        kill_after_s=60,
        ready_after_s=4,
    )
    run = start(Child(name="one", run=waits))
    await run.until("one", ChildState.UP)
    assert run.state("one").restarts == 0


async def test_the_second_request_kills_at_once(start: Start, file: Path) -> None:
    run = start(child(file, "one", "stuck", kill_after_s=600))
    await eventually(lambda: len(run.pids("one")) == 1)
    run.stopping.request()
    run.stopping.request()
    assert await run.task == 1
    assert not is_alive(run.pids("one")[0])


async def test_a_supervisor_that_is_killed_leaves_no_process_behind(file: Path) -> None:
    supervisor = await program("supervisor", file)
    await eventually(lambda: "all-ready" in text_of(file))
    await eventually(lambda: text_of(file).count("began ") == 2)
    pids = [int(line.split()[2]) for line in text_of(file).splitlines() if "began" in line]
    supervisor.kill()
    await supervisor.communicate()
    # One drains; the other one's event loop is stuck and its watching thread ends it.
    await eventually(lambda: not any(is_alive(pid) for pid in pids))
    assert "drained one-" in text_of(file)
    assert "drained two-" not in text_of(file)


async def test_the_second_signal_ends_a_process_of_one_part_at_once(file: Path) -> None:
    process = await program("part", file, "stubborn")
    assert process.stdout is not None
    await eventually(lambda: "began alone-" in text_of(file))
    process.terminate()
    while b"stop_requested" not in await process.stdout.readline():
        pass
    ended = asyncio.create_task(process.communicate())
    while not ended.done():
        process.terminate()
        await asyncio.wait([ended], timeout=0.1)
    assert process.returncode == 128 + signal.SIGTERM


# -- the same in one process ---------------------------------------------------------------------


async def test_a_part_that_hangs_in_this_process_is_given_up_and_tried_again(
    start: Start, file: Path
) -> None:
    tries: list[str] = []

    @asynccontextmanager
    async def open_part(process_id: str) -> AsyncIterator[Part]:
        tries.append(process_id)
        if len(tries) < 3:
            await asyncio.Event().wait()
        yield BehavedPart(file, "steady", process_id)

    one = Child(name="one", run=HostedPart(open_part=open_part, drain_s=20, ready_after_s=0.5))
    run = start(one, hosted(file, "two", "steady"))
    await run.until("one", ChildState.UP)
    assert (len(tries), run.state("one").restarts, run.state("two").restarts) == (3, 2, 0)
    await asyncio.sleep(0.6)  # once it works, its time is not counted any more
    assert run.state("one").state is ChildState.UP
    assert await run.stop() == 0


def hosted(file: Path, name: str, behaviour: str, drain_s: float = 20.0) -> Child:
    @asynccontextmanager
    async def open_part(process_id: str) -> AsyncIterator[Part]:
        yield BehavedPart(file, behaviour, process_id)

    return Child(name=name, run=HostedPart(open_part=open_part, drain_s=drain_s))


async def test_parts_in_one_process_drain_and_come_back_alone_too(start: Start, file: Path) -> None:
    run = start(hosted(file, "one", "flaky:1"), hosted(file, "two", "steady"))
    await eventually(lambda: len(run.pids("one")) == 2)
    await run.until("one", ChildState.UP)
    await run.until("two", ChildState.UP)
    assert run.state("one").restarts == 1
    assert run.state("two").restarts == 0
    assert await run.stop() == 0
    assert len(run.notes("drained")) == 2


async def test_a_part_in_one_process_that_does_not_drain_is_cut_off(
    start: Start, file: Path
) -> None:
    run = start(hosted(file, "one", "stubborn", drain_s=0.01))
    await run.until("one", ChildState.UP)
    assert await run.stop() == 1


async def test_a_part_waits_in_its_process_for_a_store_that_is_away_at_its_start(
    start: Start, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "AWAY_PAUSE_S", 0.01)
    ids: list[str] = []

    @asynccontextmanager
    async def open_part(process_id: str) -> AsyncIterator[Part]:
        ids.append(process_id)
        if len(ids) < 20:
            raise StoreAway if len(ids) % 2 else StoreUnavailable
        yield BehavedPart(file, "steady", process_id)

    run = start(Child(name="one", run=HostedPart(open_part=open_part, drain_s=20.0)))
    await run.until("one", ChildState.UP)
    assert run.state("one").restarts == 0
    assert len(set(ids)) == 20  # what one of them may own, no other takes for its own
    assert await run.stop() == 0


async def test_a_part_that_waits_for_its_store_can_be_stopped(start: Start) -> None:
    has_tried = asyncio.Event()

    @asynccontextmanager
    async def open_part(_process_id: str) -> AsyncIterator[Part]:
        has_tried.set()
        raise StoreAway
        yield

    run = start(Child(name="one", run=HostedPart(open_part=open_part, drain_s=20.0)))
    await has_tried.wait()
    assert await run.stop() == 0
