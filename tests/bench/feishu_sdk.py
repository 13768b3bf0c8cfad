"""The SDK's own clients as subjects of `tests.bench.feishu`; a process of its own runs them."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import lark_oapi as lark
from lark_oapi.api.im.v1 import CreateMessageRequest, CreateMessageRequestBody

from tests.bench.stopwatch import Stopwatch


def client_of(facts: Any) -> Any:
    """The SDK's API client."""
    builder = lark.Client.builder().app_id(facts["app_id"]).app_secret(facts["app_secret"])
    return builder.domain(facts["domain"]).build()


def request_to(chat: str) -> Any:
    """A short text."""
    content = json.dumps({"text": "hello"})
    body = CreateMessageRequestBody.builder().receive_id(chat).msg_type("text").content(content)
    made = CreateMessageRequest.builder().receive_id_type("chat_id").request_body(body.build())
    return made.build()


def send(facts: Any) -> dict[str, float]:
    """Texts through the blocking call."""
    client = client_of(facts)
    first, *rest = facts["chats"]
    client.im.v1.message.create(request_to(first))
    watch = Stopwatch()
    for chat in rest:
        client.im.v1.message.create(request_to(chat))
    return watch.per(len(rest))


def send_async(facts: Any) -> dict[str, float]:
    """Texts through the asynchronous call."""

    async def run() -> dict[str, float]:
        client = client_of(facts)
        first, *rest = facts["chats"]
        await client.im.v1.message.acreate(request_to(first))
        watch = Stopwatch()
        for chat in rest:
            await client.im.v1.message.acreate(request_to(chat))
        return watch.per(len(rest))

    return asyncio.run(run())


def receive(facts: Any) -> dict[str, float]:
    """Events through the long connection and the dispatcher, to a handler that does nothing."""
    watches: list[Stopwatch] = []
    count = 0

    def received(_data: object) -> None:
        nonlocal count
        if not count:
            watches.append(Stopwatch())
        count += 1
        if count > facts["events"]:
            tell(watches[0].per(facts["events"]))
            raise SystemExit  # the client has no other end

    builder = lark.EventDispatcherHandler.builder("", "")
    handler = builder.register_p2_im_message_receive_v1(received).build()
    lark.ws.Client(
        facts["app_id"], facts["app_secret"], event_handler=handler, domain=facts["domain"]
    ).start()
    raise AssertionError("the client ended by itself")


def tell(measured: dict[str, float]) -> None:
    """Print the figures."""
    sys.stdout.write(json.dumps(measured) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    lark.logger.handlers.clear()  # they write to stdout
    tell(
        {"send": send, "send_async": send_async, "receive": receive}[sys.argv[1]](
            json.loads(sys.argv[2])
        )
    )
