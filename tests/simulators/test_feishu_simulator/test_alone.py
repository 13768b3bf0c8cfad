"""The simulator as a process of its own, driven over its admin door."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp

WAIT_S = 20.0


async def test_it_runs_alone_and_is_driven_over_its_admin_door() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.simulators.feishu", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        facts = json.loads(await asyncio.wait_for(process.stdout.readline(), WAIT_S))
        async with aiohttp.ClientSession() as session:

            async def door(door: str, **arguments: Any) -> Any:
                url = f"{facts['admin_url']}/{door}"
                async with session.post(url, json=arguments) as response:
                    return await response.json()

            await door("user", name="alice")
            chat = (await door("group", name="team", members=["alice"]))["result"]
            said = (await door("say", chat="team", user="alice", text="hi", mention=True))["result"]
            (pushed,) = (await door("deliveries", message_id=said))["result"]
            assert pushed["payload"]["event"]["message"]["chat_id"] == chat
            assert pushed["state"] == "pending"
            assert (await door("nothing"))["ok"] is False
            assert "LookupError" in (await door("say", chat="x", user="y", text="z"))["error"]
            async with session.get(facts["admin_url"]) as response:
                assert await response.json() == facts
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), WAIT_S) == 0
