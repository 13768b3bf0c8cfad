"""A robot as it is usually written with `lark_oapi`, in a process of its own.

The SDK takes its event loop when it is imported and blocks it, so it cannot live in a test's.

    sdk_robot.py DOMAIN APP_ID APP_SECRET               the long connection, until it is ended
    sdk_robot.py DOMAIN APP_ID APP_SECRET KEY TOKEN     one webhook request a line of stdin

Each text message is answered with `you said …`; what happens is printed, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import lark_oapi as lark
from lark_oapi.api.im.v1 import (
    P2ImMessageReceiveV1,
    ReplyMessageRequest,
    ReplyMessageRequestBody,
)
from lark_oapi.core.model import RawRequest
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def robot(client: Any, key: str, token: str) -> Any:
    """The SDK's dispatcher with a handler that answers at once."""

    def received(data: P2ImMessageReceiveV1) -> None:
        message = data.event.message
        words = json.loads(message.content)["text"]
        body = (
            ReplyMessageRequestBody.builder()
            .msg_type("text")
            .content(json.dumps({"text": f"you said {words}"}))
            .uuid(f"answer-{message.message_id}")
            .build()
        )
        request = (
            ReplyMessageRequest.builder().message_id(message.message_id).request_body(body).build()
        )
        answer = client.im.v1.message.reply(request)
        tell(said=words, chat=message.chat_id, code=answer.code, sent=answer.data.message_id)

    def pressed(_data: Any) -> P2CardActionTriggerResponse:
        return P2CardActionTriggerResponse({"toast": {"type": "info", "content": "pressed"}})

    return (
        lark.EventDispatcherHandler.builder(key, token)
        .register_p2_im_message_receive_v1(received)
        .register_p2_card_action_trigger(pressed)
        .build()
    )


def main() -> None:
    domain, app_id, app_secret, *sealed = sys.argv[1:]
    lark.logger.handlers.clear()  # they write to stdout
    client = lark.Client.builder().app_id(app_id).app_secret(app_secret).domain(domain).build()
    key, token = sealed or ("", "")
    handler = robot(client, key, token)
    if not sealed:
        lark.ws.Client(app_id, app_secret, event_handler=handler, domain=domain).start()
    tell(ready=True)
    for line in sys.stdin:
        given = json.loads(line)
        request = RawRequest()
        request.uri, request.headers = "/", given["headers"]
        request.body = given["body"].encode()
        answer = handler.do(request)
        tell(status=answer.status_code, body=answer.content.decode())


if __name__ == "__main__":
    main()
