"""The Feishu adapter keeps the adapter contract, over the long connection and over the webhook."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contracts.adapters import AdapterContract
from tests.contracts.adapters.feishu import FeishuGround
from tests.simulators.feishu import FeishuSimulator


@pytest.fixture(params=["long_connection", "webhook"])
async def ground(request: pytest.FixtureRequest) -> AsyncIterator[FeishuGround]:
    """A tenant in which somebody has a direct chat with us."""
    async with FeishuSimulator(ack_timeout_s=1.0) as simulator:
        simulator.create_user("alice", open_id=FeishuGround.person)
        yield FeishuGround(simulator, request.param)


class TestFeishuAdapter(AdapterContract):
    """See `tests.contracts.adapters`."""
