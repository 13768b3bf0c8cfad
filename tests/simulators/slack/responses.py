"""response_url and the payload of an ack: answers to a command or button without the Web API."""

import json
import uuid
from dataclasses import dataclass, field

from aiohttp import web

from .blocks import fault_in_blocks
from .channel_view import ChannelView
from .workspace import Json, Message

USES = 5
LIFETIME_S = 1800


@dataclass(slots=True, kw_only=True)
class Grant:
    """What one response_url may still do."""

    channel: str
    user: str
    message: Message | None
    expires_at: float
    left: int = USES


@dataclass(slots=True, kw_only=True, eq=False)
class Responses:
    """Issues response URLs and carries out what is posted to them."""

    view: ChannelView
    received: list[Json] = field(default_factory=list)
    _grants: dict[str, Grant] = field(default_factory=dict)

    def new_url(self, channel: str, user: str, message: Message | None = None) -> str:
        """A response_url for one command or press."""
        key = uuid.uuid4().hex
        self._grants[key] = Grant(
            channel=channel,
            user=user,
            message=message,
            expires_at=self.view.workspace.now() + LIFETIME_S,
        )
        return f"{self.view.base_url}/respond/{key}"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """POST /respond/<key>."""
        grant = self._grants.get(request.match_info["key"])
        if grant is None or self.view.workspace.now() > grant.expires_at:
            return web.json_response({"ok": False, "error": "expired_url"}, status=404)
        if grant.left == 0:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        try:
            payload = json.loads(await request.text())
        except json.JSONDecodeError:
            return web.Response(status=400, text="invalid_payload")
        blocks = payload.get("blocks") or []
        if blocks and (error := fault_in_blocks(blocks)):
            return web.json_response({"ok": False, "error": error}, status=400)
        grant.left -= 1
        self.received.append(payload)
        self.apply(grant.channel, grant.user, payload, grant.message)
        return web.Response(text="ok")

    def apply(self, channel: str, user: str, payload: Json, message: Message | None = None) -> None:
        """Carry out a response: replace, delete, or say something new (ephemeral by default)."""
        view = self.view
        text = str(payload.get("text") or "")
        blocks = payload.get("blocks") or []
        if message is not None and payload.get("delete_original"):
            view.delete(message)
            return
        if message is not None and payload.get("replace_original"):
            view.edit(message, text, by=view.workspace.bot.id, blocks=blocks)
            return
        if not (text or blocks):
            return
        answer = Message(
            channel=channel,
            ts=view.workspace.next_ts(),
            user=view.workspace.bot.id,
            bot_id=view.workspace.bot.bot_id,
            text=text,
            blocks=blocks,
            thread_ts=payload.get("thread_ts") or None,
        )
        if payload.get("response_type") == "in_channel":
            view.post(answer)
            return
        answer.ephemeral_to = user
        view.workspace.ephemerals.append(answer)
        view.bell.ring()
