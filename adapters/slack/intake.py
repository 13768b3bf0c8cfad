"""The two doors by which Slack's payloads enter: a Socket Mode frame, or an HTTP request.

They need no connection: recorded payloads can be pushed through them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from adapters.payload import Json, object_of, text_of
from adapters.slack.dispatch import Dispatcher
from adapters.slack.http import HttpAnswer, SignedRequests

_KINDS = frozenset({"events_api", "slash_commands", "interactive"})


class Intake:
    """Takes payloads for one `accept`; made by `SlackAdapter.intake`."""

    def __init__(self, dispatcher: Dispatcher, requests: SignedRequests) -> None:
        self._dispatcher = dispatcher
        self._requests = requests

    async def handle_envelope(self, frame: str | Json) -> Json | None:
        """Take one frame; returns the frame that acknowledges it, None for no acknowledgement
        (not stored, or nothing to acknowledge). Call it in order of arrival.
        """
        envelope = _object(frame) if isinstance(frame, str) else frame
        envelope_id = text_of(envelope.get("envelope_id"))
        if not envelope_id:
            return None
        ack: dict[str, object] = {"envelope_id": envelope_id}
        payload = object_of(envelope.get("payload"))
        if envelope.get("type") not in _KINDS or not payload:
            return ack  # nothing of ours; unacknowledged it would come again
        answer = await self._dispatcher.dispatch(payload)
        if answer is None:
            return None
        if answer.body and envelope.get("accepts_response_payload") is True:
            ack["payload"] = _object(answer.body) or {"text": answer.body}
        return ack

    async def handle_http(
        self, method: str, headers: Mapping[str, str], query: Mapping[str, str], raw_body: bytes
    ) -> HttpAnswer:
        """Answer one request. Slack signs the body and nothing else, so the query means nothing."""
        del query
        return await self._requests.answer(method, headers, raw_body)


def _object(text: str) -> Json:
    try:
        return object_of(json.loads(text))
    except (ValueError, RecursionError):
        return {}
