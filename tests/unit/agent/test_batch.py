"""H15: of one step's calls those that look run side by side, those that write in their turn."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from clawbot.agent.batch import NOT_MADE, run_calls
from clawbot.errors import TurnParked
from clawbot.history import ToolCall, ToolSpec
from clawbot.observation import Observation


class Scripted:
    """Tools that write down what begins and ends; `read` waits for `opened`."""

    specs: tuple[ToolSpec, ...] = ()

    def __init__(self, at_once: int = 8) -> None:
        self.at_once = at_once
        self.log: list[str] = []
        self.most = 0
        self.running = 0
        self.opened = asyncio.Event()
        self.opened.set()
        self.two_run = asyncio.Event()

    def writes(self, call: ToolCall) -> bool:
        return call.tool.startswith("write")

    async def call(self, call: ToolCall) -> Observation:
        self.log.append(f"{call.call_id} begins")
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == 2:
            self.two_run.set()
        try:
            if call.tool.endswith("parks"):
                raise TurnParked
            await asyncio.sleep(0)
            await self.opened.wait()
        finally:
            self.running -= 1
            self.log.append(f"{call.call_id} ends")
        return Observation(f"{call.call_id} done", is_error=False)


def calls(*names: str) -> list[ToolCall]:
    return [
        ToolCall(call_id=f"{name}{number}", tool=name, arguments="{}")
        for number, name in enumerate(names)
    ]


async def run(tools: Scripted, made: Sequence[ToolCall]) -> dict[str, Observation | None]:
    seen = {}
    async for ended in run_calls(tools, made):
        seen.update({call.call_id: observation for call, observation in ended})
    return seen


async def test_h15_writes_run_alone_and_in_order_and_reads_between_them_together() -> None:
    tools = Scripted()
    seen = await run(tools, calls("read", "read", "write", "write", "read"))
    assert list(seen) == ["read0", "read1", "write2", "write3", "read4"]
    assert tools.log[:2] == ["read0 begins", "read1 begins"]
    assert tools.log[4:] == [
        *("write2 begins", "write2 ends", "write3 begins", "write3 ends"),
        *("read4 begins", "read4 ends"),
    ]


async def test_no_more_run_side_by_side_than_may() -> None:
    tools = Scripted(at_once=3)
    assert len(await run(tools, calls(*["read"] * 20))) == 20
    assert tools.most == 3


async def test_after_a_call_that_waits_for_people_no_other_one_writes() -> None:
    tools = Scripted()
    seen = await run(tools, calls("write", "write parks", "read", "write"))
    assert seen == {
        "write0": ("write0 done", False, ()),
        "write parks1": None,
        "read2": ("read2 done", False, ()),
        "write3": (NOT_MADE, True, ()),
    }
    assert "write3 begins" not in tools.log


async def test_what_runs_is_ended_when_nobody_wants_the_rest() -> None:
    tools = Scripted()
    tools.opened.clear()

    async def first_of(made: Sequence[ToolCall]) -> None:
        async with aclosing(run_calls(tools, made)) as batches:
            async for _ in batches:
                raise RuntimeError("the lease is lost")

    with pytest.raises(RuntimeError, match="lease"):
        await first_of(calls("read parks", "read", "read"))
    assert tools.running == 0
    assert "read2 ends" in tools.log
    tools.two_run.clear()
    task = asyncio.create_task(first_of(calls("read", "read")))
    await tools.two_run.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tools.running == 0
