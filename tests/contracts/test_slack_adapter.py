"""The Slack adapter keeps the adapter contract, over Socket Mode and over signed HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contracts.adapters import AdapterContract
from tests.contracts.adapters.slack import SlackGround
from tests.simulators.slack import SlackSimulator


@pytest.fixture(params=["socket", "http"])
async def ground(request: pytest.FixtureRequest) -> AsyncIterator[SlackGround]:
    """A workspace in which somebody has a direct chat with us."""
    async with SlackSimulator(ack_timeout_s=1.0) as simulator:
        simulator.create_user("alice", user_id=SlackGround.person)
        yield SlackGround(simulator, request.param)


class TestSlackAdapter(AdapterContract):
    """See `tests.contracts.adapters`."""
