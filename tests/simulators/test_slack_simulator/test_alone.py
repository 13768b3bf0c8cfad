"""The simulator as a process of its own, driven over its admin door."""

import asyncio
import json
import sys
from typing import Any

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from .clients import WAIT_S


async def test_it_runs_alone_and_is_driven_over_its_admin_door(
    session: aiohttp.ClientSession,
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.simulators.slack",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        facts = json.loads(await asyncio.wait_for(process.stdout.readline(), WAIT_S))

        async def door(door: str, **arguments: Any) -> Any:
            async with session.post(f"{facts['admin_url']}/{door}", json=arguments) as response:
                return await response.json()

        await door("user", name="alice")
        channel = (await door("channel", name="general", members=["alice"]))["result"]
        said = await door("say", channel="general", user="alice", text="hi", mention=True)
        refused = await door("say", channel="general", user="alice", text="/hi")
        assert "SlashTextRefused" in refused["error"]
        client = AsyncWebClient(facts["bot_token"], base_url=facts["api_base_url"], session=session)
        await client.chat_postMessage(channel=channel, text="yo", thread_ts=said["result"])
        (sent,) = (await door("wait_sent", channel="general"))["result"]
        assert (sent["text"], sent["thread_ts"]) == ("yo", said["result"])
        pushed = (await door("deliveries", ts=said["result"]))["result"]
        assert [each["state"] for each in pushed] == ["pending", "pending"]
        assert (await door("nothing"))["ok"] is False
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), WAIT_S) == 0
