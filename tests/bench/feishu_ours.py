"""The Feishu adapter as a subject of `tests.bench.feishu`; a process of its own runs it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import structlog
from pydantic import SecretStr

from adapters.feishu.adapter import FeishuAdapter, open_adapter
from adapters.feishu.config import FeishuConfig
from clawbot.clock import SystemClock
from clawbot.messages import Accepted, OutboundPart, ReplyRoute
from tests.bench.stopwatch import Stopwatch


def adapter_of(facts: Any) -> FeishuAdapter:
    """The adapter as a channel of the config opens it."""
    config = FeishuConfig(
        domain=facts["domain"], app_id=facts["app_id"], app_secret=SecretStr(facts["app_secret"])
    )
    return open_adapter("feishu", config, SystemClock())


def part(chat: str, key: str) -> OutboundPart:
    """A short answer."""
    route = ReplyRoute(chat_id=chat)
    return OutboundPart(channel="feishu", route=route, key=key, part_no=0, text="hello")


async def send(facts: Any) -> dict[str, float]:
    """Texts through `send`, each into a chat of its own."""
    adapter = adapter_of(facts)
    first, *rest = facts["chats"]
    try:
        await adapter.send(part(first, "warm"))
        watch = Stopwatch()
        for number, chat in enumerate(rest):
            await adapter.send(part(chat, f"k{number}"))
        return watch.per(len(rest))
    finally:
        await adapter.close()


async def receive(facts: Any) -> dict[str, float]:
    """Events through the long connection, to an `accept` that does nothing."""
    done, watches = asyncio.Event(), []
    count = 0

    async def accept(_message: object) -> Accepted:
        nonlocal count
        if not count:
            watches.append(Stopwatch())
        count += 1
        if count > facts["events"]:
            done.set()
        return Accepted(inbox_id=count, decision="queued")

    adapter = adapter_of(facts)
    task = asyncio.create_task(adapter.receive(accept))
    try:
        await done.wait()
        return watches[0].per(facts["events"])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await adapter.close()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    given = json.loads(sys.argv[2])
    measured = asyncio.run({"send": send, "receive": receive}[sys.argv[1]](given))
    sys.stdout.write(json.dumps(measured) + "\n")
