"""Web API calls that fail on purpose."""

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator

from .clients import error_of


async def test_a_5xx_with_html_and_a_429_are_not_processed(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    slack.fail_next("chat.postMessage", "http:502")
    slack.fail_next("chat.postMessage", "ratelimited:7")
    slack.fail_next("chat.postMessage", "error:restricted_action")
    with pytest.raises(SlackApiError) as broken:
        await client.chat_postMessage(channel="#general", text="hi")
    assert broken.value.response.status_code == 502
    with pytest.raises(SlackApiError) as limited:
        await client.chat_postMessage(channel="#general", text="hi")
    assert limited.value.response.headers["Retry-After"] == "7"
    refused = client.chat_postMessage(channel="#general", text="hi")
    assert await error_of(refused) == "restricted_action"
    assert slack.sent() == []
    await client.chat_postMessage(channel="#general", text="hi")
    assert [call.processed for call in slack.calls("chat.postMessage")] == [False] * 3 + [True]


@pytest.mark.parametrize(("how", "posted"), [("reset_before", 0), ("reset_after", 1)])
async def test_a_reset_connection_leaves_the_outcome_open(
    slack: SlackSimulator, client: AsyncWebClient, how: str, posted: int
) -> None:
    slack.fail_next("chat.postMessage", how)
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.chat_postMessage(channel="#general", text="hi")
    assert len(slack.sent()) == posted


@pytest.mark.parametrize(("how", "posted"), [("hang", 0), ("hang_after", 1)])
async def test_a_call_that_is_never_answered_times_out_at_the_client(
    slack: SlackSimulator, how: str, posted: int
) -> None:
    slack.fail_next("chat.postMessage", how)
    timeout = aiohttp.ClientTimeout(total=0.2)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url, session=session)
        with pytest.raises(TimeoutError):
            await client.chat_postMessage(channel="#general", text="hi")
    assert len(slack.sent()) == posted


async def test_the_default_retry_of_the_sdk_posts_twice_after_a_reset(
    slack: SlackSimulator,
) -> None:
    slack.fail_next("chat.postMessage", "reset_after")
    client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
    await client.chat_postMessage(channel="#general", text="hi")
    assert [message.text for message in slack.sent()] == ["hi", "hi"]


async def test_slow_and_broken_answers_are_processed(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    slack.fail_next("chat.postMessage", "slow:0.01")
    slack.fail_next("chat.postMessage", "bad_json")
    await client.chat_postMessage(channel="#general", text="slow")
    with pytest.raises(SlackApiError):
        await client.chat_postMessage(channel="#general", text="cut")
    assert [message.text for message in slack.sent()] == ["slow", "cut"]


async def test_a_rate_limit_counts_each_channel_alone(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    slack.create_channel("other")
    slack.limit_rate("chat.postMessage", interval_s=60, burst=2)
    for channel in ("#general", "#general", "#other"):
        await client.chat_postMessage(channel=channel, text="hi")
    limited = client.chat_postMessage(channel="#general", text="hi")
    assert await error_of(limited) == "ratelimited"
    slack.clear_faults()
    await client.chat_postMessage(channel="#general", text="hi")


async def test_an_unknown_fault_is_refused_at_once(slack: SlackSimulator) -> None:
    with pytest.raises(ValueError, match="unknown fault"):
        slack.fail_next("chat.postMessage", "explode")
