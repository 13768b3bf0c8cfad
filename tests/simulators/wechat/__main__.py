"""`python -m tests.simulators.wechat official|wecom|aibot`: one simulator alone, for trying out.

Prints one JSON line with its URLs, secrets and ids, then serves until SIGINT or SIGTERM. `callback`
tells it where the program listens; its doors are opened by name with JSON arguments:

    curl -d '{"url": "http://127.0.0.1:3002/wechat"}' $ADMIN_URL/callback
    curl -d '{"user": "oAlice", "text": "hello"}' $ADMIN_URL/user_says
    curl -d '{}' $ADMIN_URL/sent

Doors: user_says, user_sends, user_does (official, wecom), user_enters (aibot), sent, wait_sent,
fail_next, expire_token, stick_token, close_window, lose_responses (official), close_link (aibot).
"""

import argparse
import asyncio
import inspect
import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from aiohttp import web

from . import AibotSimulator, WechatSimulator, WecomSimulator

Simulator = WechatSimulator | WecomSimulator | AibotSimulator
KINDS: Mapping[str, Callable[[], Simulator]] = {
    "official": WechatSimulator,
    "wecom": WecomSimulator,
    "aibot": AibotSimulator,
}
DOORS = (
    *("user_says", "user_sends", "user_does", "user_enters", "sent", "wait_sent", "wait_finished"),
    *("fail_next", "expire_token", "stick_token", "close_window", "lose_responses", "close_link"),
)
FACTS = (
    *("app_id", "app_secret", "account_id", "corp_id", "agent_id", "secret", "bot_id"),
    *("token", "aes_key", "api_url", "socket_url"),
)


def doors_of(simulator: Simulator) -> dict[str, Callable[..., Any]]:
    """The doors that a kind has, and `callback`."""

    def callback(url: str) -> str:
        if isinstance(simulator, AibotSimulator):
            simulator.webhook_url = url
        else:
            simulator.pusher.url = url
        return url

    found = {name: getattr(simulator, name) for name in DOORS if hasattr(simulator, name)}
    return {**found, "callback": callback}


def admin_app(simulator: Simulator) -> web.Application:
    """Opens doors by name; not part of the platform."""
    doors = doors_of(simulator)

    async def open_door(request: web.Request) -> web.Response:
        door = doors.get(request.match_info["door"])
        if door is None:
            told = {"ok": False, "error": f"no such door; there are {', '.join(sorted(doors))}"}
            return web.json_response(told, status=404)
        try:
            result = door(**json.loads(await request.text() or "{}"))
            if inspect.isawaitable(result):
                result = await result
        except (LookupError, TypeError, ValueError, TimeoutError) as error:
            told = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            return web.json_response(told, status=400)
        plain = asdict(result) if is_dataclass(result) and not isinstance(result, type) else result
        return web.json_response({"ok": True, "result": plain})

    app = web.Application()
    app.router.add_post("/sim/{door}", open_door)
    return app


async def serve(kind: str, port: int) -> None:
    """Run until a signal asks to stop."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with KINDS[kind]() as simulator:
        runner = web.AppRunner(admin_app(simulator), access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            facts = {name: getattr(simulator, name) for name in FACTS if hasattr(simulator, name)}
            facts["admin_url"] = f"http://127.0.0.1:{runner.addresses[0][1]}/sim"
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()
            await stop.wait()
        finally:
            await runner.cleanup()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulators.wechat")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--port", type=int, default=0, help="of the admin door; 0 = a free one")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.kind, arguments.port))


if __name__ == "__main__":
    main()
