"""The two doors by which Feishu's payloads enter: a frame of the long connection, or a request.

They need no connection: recorded payloads can be pushed through them as they are.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from adapters.feishu.dispatch import Dispatcher
from adapters.feishu.http import HttpAnswer, SealedRequests
from adapters.payload import Json, parse

_CALLBACKS = frozenset({"card.action.trigger", "url.preview.get"})


class Intake:
    """Takes payloads for one `accept`; made by `FeishuAdapter.intake`."""

    def __init__(self, dispatcher: Dispatcher, requests: SealedRequests) -> None:
        self._dispatcher = dispatcher
        self._requests = requests

    async def handle_event(self, payload: bytes) -> Json:
        """Take the payload of a data frame; returns the payload of the frame to send back. Its
        code is 500 for what was not stored and must come again. Call it in order of arrival.
        """
        event = parse(payload)
        if event is None:
            return {"code": 200}  # it would come again for ever
        body = await self._dispatcher.dispatch(event)
        if body is None:
            return {"code": 500}
        header = event.get("header")
        kind = header.get("event_type") if isinstance(header, dict) else None
        if kind not in _CALLBACKS:
            return {"code": 200}
        data = base64.b64encode(json.dumps(body).encode()).decode()
        return {"code": 200, "headers": {}, "data": data}

    async def handle_http(
        self, method: str, headers: Mapping[str, str], query: Mapping[str, str], raw_body: bytes
    ) -> HttpAnswer:
        """Answer one request. Feishu signs the body and nothing else: the query means nothing."""
        del query
        return await self._requests.answer(method, headers, raw_body)
