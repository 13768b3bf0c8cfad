"""What goes wrong between Slack and the app: links, repeated and reordered events, dead tokens.

Failing Web API calls are planned in `faults`; junk over HTTP is posted with `SignedHttp.post`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .channel_view import ChannelView
from .feed import Delivery, DeliveryKind
from .socket_mode import Reason
from .web_api import Token, WebApi
from .workspace import Json

TokenKind = Literal["bot", "app"]


@dataclass(slots=True, kw_only=True, eq=False)
class Trouble:
    """The breaking doors."""

    view: ChannelView
    web_api: WebApi

    async def send_event(self, event: Json) -> Delivery:
        """Push any inner event: an unknown type, a huge text, one that no door makes."""
        return self.view.feed.publish(event)

    async def send_payload(self, payload: Json, *, kind: DeliveryKind = "events_api") -> Delivery:
        """Push any outer payload as it is: app_rate_limited, a callback without event, a form."""
        return self.view.feed.send(kind, payload)

    async def send_raw_frame(self, frame: str | bytes) -> None:
        """Send any text frame, bytes that are not UTF-8 too, on every Socket Mode connection."""
        await self.web_api.sockets.send_raw(frame)

    async def redeliver(
        self, what: Delivery | str, *, new_event_id: bool = False
    ) -> list[Delivery]:
        """Push again: a delivery, an event_id, or all events of a message's ts."""
        if isinstance(what, Delivery):
            chosen = [what]
        else:
            originals = {d.event_id: d for d in reversed(self.view.feed.deliveries) if d.event_id}
            chosen = [
                each
                for each in reversed(originals.values())
                if what in {each.event_id, each.event.get("ts")}
            ]
        if not chosen:
            raise LookupError(f"slack simulator: nothing was delivered for {what!r}")
        return [self.view.feed.redeliver(each, new_event_id=new_event_id) for each in chosen]

    def hold_events(self) -> None:
        """Keep events back until `release_events`."""
        self.view.feed.hold()

    def release_events(self, order: Literal["same", "reversed"] | Sequence[int] = "same") -> None:
        """Send the held events, in another order if wanted."""
        self.view.feed.release(order)

    async def drop_connection(self) -> None:
        """Cut all Socket Mode connections without a close frame."""
        self.web_api.sockets.drop_connections()

    async def disconnect(
        self,
        reason: Reason = "refresh_requested",
        *,
        close: bool = False,
    ) -> None:
        """Send a disconnect frame on all connections; with `close` close them too."""
        await self.web_api.sockets.disconnect(reason, close=close)

    async def expire_token(self, kind: TokenKind = "bot") -> None:
        """From now on the token is `token_expired`."""
        self._token(kind).error = "token_expired"

    async def revoke_token(
        self,
        kind: TokenKind = "bot",
        *,
        error: str = "token_revoked",
        announce: bool = False,
    ) -> None:
        """From now on the token answers `error` (account_inactive, invalid_auth…)."""
        self._token(kind).error = error
        if announce:
            tokens = {"oauth": [], "bot": [self.view.workspace.bot.id]}
            self.view.feed.publish({"type": "tokens_revoked", "tokens": tokens})

    async def restore_token(self, kind: TokenKind = "bot") -> None:
        """Make the token good again."""
        self._token(kind).error = ""

    async def expire_streams(self) -> None:
        """Every open stream ends: append and stop say message_not_in_streaming_state."""
        for message in self.view.workspace.posted:
            message.streaming = False
        self.view.bell.ring()

    def _token(self, kind: TokenKind) -> Token:
        return next(t for t in self.web_api.tokens.values() if t.kind == kind)
