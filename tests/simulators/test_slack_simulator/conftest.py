"""A running simulator with a few people, and the real clients of it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator

from .clients import WAIT_S


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """slack_sdk reads these and ignores NO_PROXY."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(ack_timeout_s=0.2, retry_delays_s=(0.0, 0.05, 0.1)) as simulator:
        simulator.create_user("alice")
        simulator.create_user("bob")
        simulator.create_channel("general", ["alice", "bob"])
        yield simulator


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WAIT_S)) as session:
        yield session


@pytest.fixture
def client(slack: SlackSimulator, session: aiohttp.ClientSession) -> AsyncWebClient:
    return AsyncWebClient(
        slack.bot_token, base_url=slack.api_url, session=session, retry_handlers=[]
    )
