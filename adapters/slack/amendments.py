"""Edits and deletions of messages, as Slack tells them, read as amendments. Pure: no network."""

from __future__ import annotations

from adapters.payload import Json, object_of, text_of
from adapters.slack.facts import Facts
from adapters.slack.inbound import parse_event
from clawbot.messages import Amendment, InboundMessage

_COMPARED = ("text", "blocks", "files")


def read_amendment(payload: Json, facts: Facts) -> Amendment | None:
    """What an event of the kind `message_changed` or `message_deleted` does to a message; None for
    one that changes no words: a link's preview, a reply counted, an edit of our own.

    `parse_event` has refused the payload with the reason edit or deletion before.
    """
    inner = object_of(payload.get("payload"))
    payload = inner if inner and "envelope_id" in payload else payload
    event = object_of(payload.get("event"))
    chat = text_of(event.get("channel"))
    if text_of(event.get("subtype")) == "message_deleted":
        ts = text_of(event.get("deleted_ts"))
        if not chat or not ts:
            return None
        return Amendment(channel=facts.channel, identity=f"{chat}:{ts}", message=None)
    new, old = object_of(event.get("message")), object_of(event.get("previous_message"))
    if all(new.get(key) == old.get(key) for key in _COMPARED):
        return None
    if text_of(new.get("subtype")) == "tombstone":  # a root with replies is deleted in this way
        return Amendment(
            channel=facts.channel, identity=f"{chat}:{text_of(new.get('ts'))}", message=None
        )
    place = {key: event.get(key) for key in ("channel", "channel_type")}
    told = {key: value for key, value in payload.items() if key != "event_id"}
    message = parse_event({**told, "event": {**new, "type": "message", **place}}, facts)
    if not isinstance(message, InboundMessage):
        return None
    return Amendment(channel=facts.channel, identity=message.identity, message=message)
