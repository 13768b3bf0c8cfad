"""From the fields of a WeCom app's callback to an inbound message. Pure: no network.

The kinds are WeChat's, with a member's user id as sender and the app's AgentID beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.payload import Json
from adapters.wechat import inbound
from adapters.wechat.fields import text_field
from clawbot.messages import Ignored, InboundMessage


def parse_message(
    fields: Json, *, channel: str, raw: str, menu: Mapping[str, str], agent_id: int
) -> InboundMessage | Ignored:
    """Read a message or an event that came for this app."""
    agent = text_field(fields, "AgentID")
    if agent and agent != str(agent_id):
        return Ignored(reason="foreign_agent")
    return inbound.parse_message(fields, channel=channel, raw=raw, menu=menu)
