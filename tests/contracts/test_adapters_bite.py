"""The adapter contract bites: for each clause, an adapter that breaks it fails it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator

import pytest

from clawbot.errors import SendError
from tests.contracts.adapters import AdapterContract, ground
from tests.contracts.adapters.breaks import BREAKS, Break
from tests.contracts.adapters.slack import SlackGround
from tests.simulators.slack import SlackSimulator

# A failed assertion, a wait in vain, what the fault itself raises.
BITES = (
    *(AssertionError, AttributeError, TimeoutError, ValueError, RuntimeError),
    *(SendError, pytest.fail.Exception),
)
CLAUSES = [
    name for name, _ in inspect.getmembers(AdapterContract, inspect.isfunction) if "test_" in name
]


@pytest.fixture
async def slack() -> AsyncIterator[SlackGround]:
    """A platform on which nobody waits long for what a broken adapter never does."""
    async with SlackSimulator(ack_timeout_s=1.0) as simulator:
        simulator.create_user("alice", user_id=SlackGround.person)
        yield SlackGround(simulator, "http")


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_is_held_against_an_adapter_that_breaks_it(clause: str) -> None:
    assert any(one.clause == clause for one in BREAKS)


@pytest.mark.parametrize(
    "broken", BREAKS, ids=[f"{one.clause}-{one.fault}".replace(" ", "_") for one in BREAKS]
)
async def test_an_adapter_that_breaks_a_clause_fails_it(
    broken: Break, slack: SlackGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground, "WAIT_S", 1.5)
    hold = getattr(AdapterContract(), broken.clause)
    broken.apply(monkeypatch)
    with pytest.raises(BITES):
        await hold(slack, **broken.given)
    monkeypatch.undo()
