"""`lark_oapi` in front of the simulator: its long connection, its dispatcher, its API client."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.simulators.feishu import FeishuSimulator

ROBOT = Path(__file__).parent / "sdk_robot.py"
START_S = 60.0  # importing the SDK takes seconds, more on a busy machine


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuSimulator]:
    async with FeishuSimulator() as simulator:
        simulator.create_user("alice")
        simulator.create_group("team", ["alice"])
        yield simulator


@asynccontextmanager
async def robot(feishu: FeishuSimulator, *sealed: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROBOT),
        feishu.base_url,
        feishu.app_id,
        feishu.app_secret,
        *sealed,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


async def told(process: asyncio.subprocess.Process) -> dict[str, object]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), START_S)
    return dict(json.loads(line))


async def test_the_sdks_long_connection_receives_answers_and_reconnects(
    feishu: FeishuSimulator,
) -> None:
    feishu.sockets.client_config = {
        "ReconnectCount": -1,
        "ReconnectInterval": 1,
        "ReconnectNonce": 0,
        "PingInterval": 1,
    }
    async with robot(feishu) as process:
        await feishu.wait_connected(timeout_s=START_S)
        said = await feishu.user_says("team", "alice", "hello", mention=True)
        assert await told(process) == {
            "said": "@_user_1 hello",
            "chat": feishu.chat("team").id,
            "code": 0,
            "sent": feishu.sent()[0].id,
        }
        feishu.fragment(120, "reversed")
        await feishu.user_says("team", "alice", "in pieces " * 50)
        await told(process)
        pressed = await feishu.press_button(said, "alice", {"a": 1})
        await feishu.wait_settled()
        await feishu.wait_for(lambda: feishu.sockets.connections[0].pings >= 2)
        await feishu.drop_connection()
        await feishu.wait_for(lambda: feishu.sockets.opened >= 2, timeout_s=20)
        await feishu.user_says("team", "alice", "again")
        await told(process)
        await feishu.wait_settled()
    assert pressed.answer == {"toast": {"type": "info", "content": "pressed"}}
    assert feishu.sent()[0].parent_id == said
    assert [each.attempts for each in feishu.acked()] == [1, 1, 1, 1]
    assert not feishu.unacked()
    assert not feishu.sockets.junk


async def test_the_sdks_dispatcher_opens_and_verifies_what_is_pushed(
    feishu: FeishuSimulator,
) -> None:
    requests: asyncio.Queue[tuple[dict[str, str], str]] = asyncio.Queue()
    answers: asyncio.Queue[dict[str, object]] = asyncio.Queue()

    async def hook(request: web.Request) -> web.Response:
        await requests.put((dict(request.headers), await request.text()))
        answer = await answers.get()
        status, body = answer["status"], answer["body"]
        assert isinstance(status, int)
        return web.Response(status=status, text=str(body), content_type="application/json")

    app = web.Application()
    app.router.add_post("/", hook)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    async with robot(feishu, feishu.encrypt_key, feishu.verification_token) as process:
        assert process.stdin is not None
        assert await told(process) == {"ready": True}
        hooked = await feishu.use_webhook(url)

        async def pass_on() -> dict[str, object]:
            headers, body = await requests.get()
            line = json.dumps({"headers": headers, "body": body}) + "\n"
            assert process.stdin is not None
            process.stdin.write(line.encode())
            answer = await told(process)
            while "status" not in answer:
                answer = await told(process)
            await answers.put(answer)
            return answer

        verified, _ = await asyncio.gather(hooked.verify_url(), pass_on())
        assert verified
        await feishu.user_says("team", "alice", "hello")
        assert (await pass_on())["status"] == 200
        await feishu.wait_settled()
        forged = hooked.post(hooked.seal(b'{"schema": "2.0"}'), signature="0" * 64)
        refused, _ = await asyncio.gather(forged, pass_on())
        assert refused.status == 500
    await runner.cleanup()
    assert [sent.text for sent in feishu.sent()] == ["you said hello"]
    assert not feishu.unacked()
