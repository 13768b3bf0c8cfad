"""What goes wrong between Feishu and the app: links, repeated and reordered events, dead tokens.

Failing API calls are planned in `faults`; junk over HTTP is posted with `Webhook.post`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .feed import Delivery, Feed
from .long_connection import FragmentOrder, LongConnection, Refusal
from .open_api import OpenApi
from .shapes import envelope
from .tenant import Json, Tenant


@dataclass(slots=True, kw_only=True, eq=False)
class Trouble:
    """The breaking doors."""

    tenant: Tenant
    feed: Feed
    open_api: OpenApi
    sockets: LongConnection
    token: str

    async def send_event(self, event_type: str, event: Json) -> Delivery:
        """Push any event: an unknown type, a huge text, one that no door makes."""
        return self.feed.send(envelope(self.tenant, self.token, event_type, event))

    async def send_payload(self, payload: Json) -> Delivery:
        """Push any payload as it is, of the 1.0 format for example."""
        return self.feed.send(payload)

    async def send_raw(self, raw: bytes) -> Delivery:
        """Push any bytes instead of a payload: broken JSON, invalid UTF-8."""
        return self.feed.send({}, raw=raw)

    async def redeliver(
        self, what: Delivery | str, *, new_event_id: bool = False, new_message_id: bool = False
    ) -> list[Delivery]:
        """Push again: a delivery, an event_id, or all events of a message."""
        if isinstance(what, Delivery):
            chosen = [what]
        else:
            originals = {d.event_id: d for d in reversed(self.feed.deliveries)}
            chosen = [
                each
                for each in reversed(originals.values())
                if what in {each.event_id, each.message_id}
            ]
        if not chosen:
            raise LookupError(f"feishu simulator: nothing was delivered for {what!r}")
        return [
            self.feed.redeliver(
                each,
                event_id=self.tenant.new_id("ev") if new_event_id else "",
                message_id=self.tenant.new_id("om_") if new_message_id else "",
            )
            for each in chosen
        ]

    def hold_events(self) -> None:
        """Keep events back until `release_events`."""
        self.feed.hold()

    def release_events(self, order: Literal["same", "reversed"] | Sequence[int] = "same") -> None:
        """Send the held events, in another order if wanted."""
        self.feed.release(order)

    async def drop_connection(self) -> None:
        """Cut all long connections without a close frame."""
        self.sockets.drop_connections()

    async def close_connections(self, code: int = 1000) -> None:
        """Close all long connections with a close frame."""
        await self.sockets.close_connections(code)

    def refuse_handshake(
        self, status: int, message: str = "refused", *, detail: int = 0, times: int = 1
    ) -> None:
        """Refuse the next handshakes with these headers (403, or 514 with a detail)."""
        refusal = Refusal(status=status, message=message, detail=detail, times=times)
        self.sockets.refusals.append(refusal)

    def fragment(self, size: int, order: FragmentOrder = "same") -> None:
        """Send events in frames of this size; `lost`: the next event lacks its first one."""
        self.sockets.fragment_bytes = size
        self.sockets.fragment_order = order

    async def expire_token(self) -> None:
        """From now on every tenant token given so far is refused (99991663)."""
        self.open_api.revoke_tokens()

    async def change_secret(self, secret: str) -> None:
        """The admin has reset the app's secret: the old one, and its tokens, are refused."""
        self.open_api.app_secret = secret
        self.open_api.revoke_tokens()

    def take_scope(self, scope: str) -> None:
        """The admin has taken a permission away (99991672)."""
        self.open_api.scopes.discard(scope)

    async def close_streams(self) -> None:
        """Feishu ends streaming by itself after ten minutes."""
        for card in self.tenant.cards.values():
            card.content.setdefault("config", {})["streaming_mode"] = False
