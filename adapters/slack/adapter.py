"""One Slack app, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  socket | http  →  dispatch (parse, accept, ack)
    send:     outbound (Markdown → mrkdwn)  →  api

References and routes made here are opaque to everybody else: a MessageRef is `channel:ts`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping

import structlog

from adapters.health import Health
from adapters.payload import object_of
from adapters.slack.api import SlackApi
from adapters.slack.config import SlackConfig
from adapters.slack.dispatch import Dispatcher
from adapters.slack.facts import SLASH_TOKEN, Identity
from adapters.slack.failures import AUTH_CODES
from adapters.slack.http import HttpReceiver, SignedRequests
from adapters.slack.intake import Intake
from adapters.slack.names import Directory
from adapters.slack.outbound import MAX_SIZE, measure, render_part
from adapters.slack.recorded import read_recorded
from adapters.slack.socket import SocketReceiver, Timings
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected, SendError
from clawbot.messages import (
    ChannelHealth,
    Ignored,
    InboundMessage,
    Limits,
    MessageRef,
    OutboundPart,
    ReplyRoute,
)
from clawbot.ports import Accept, Clock

log = structlog.get_logger(__name__)

_EDIT_INTERVAL_S = 1.2  # chat.update is tier 3, about 50 a minute
_LOOK_BACK_S = 7 * 24 * 3600
_THINKING = "is thinking…"
_TOKENS_HINT = "check bot_token and app_token, or install the app again"


def open_adapter(
    name: str, config: SlackConfig, clock: Clock, *, timings: Timings | None = None
) -> SlackAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return SlackAdapter(name, config, clock, timings or Timings())


class SlackAdapter:
    """A `ChannelAdapter` that can also edit, look up, enrich, show status and tell its health."""

    limits = Limits(max_size=MAX_SIZE, edit_interval_s=_EDIT_INTERVAL_S)

    def __init__(self, name: str, config: SlackConfig, clock: Clock, timings: Timings) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._timings = timings
        self._api = SlackApi(config)
        self._names = Directory(name, self._api, clock)
        self._health = Health(name)
        self._shows_status = True

    # -- life cycle --------------------------------------------------------------------------------

    async def check(self) -> ChannelHealth:
        """auth.test with the bot token and, in socket mode, apps.connections.open with the app's.

        Raises ChannelBroken if Slack refuses a token; an unreachable Slack is `degraded`.
        """
        try:
            self.adopt(await self._api.identify())
            if self._config.mode == "socket":
                await self._api.open_socket()
        except Rejected as error:
            self._health.broken(f"Slack refuses this account ({error}); {_TOKENS_HINT}")
            raise ChannelBroken(f"channel {self._name}: {self.health().detail}") from error
        except SendError as error:
            self._health.lost(str(error))
        return self._health.snapshot()

    def adopt(self, identity: Identity) -> None:
        """Take this for who we are; `check` does so with what Slack says."""
        self._names.identity = identity
        self._health.learn(
            bot=identity.name,
            user_id=", ".join(sorted(identity.user_ids)),
            team_id=", ".join(sorted(identity.team_ids)),
            app_id=identity.app_id,
            mode=self._config.mode,
        )

    async def receive(self, accept: Accept) -> None:
        """Receive until cancelled. Raises ChannelBroken when an admin must act, and StartupError
        when the port to listen on is taken.
        """
        try:
            await self._until_identified()
            intake = self.intake(accept)
            if self._config.mode == "socket":
                handle = intake.handle_envelope
                running = SocketReceiver(
                    self._name, self._api, self._health, handle, self._timings
                ).run()
            else:
                receiver = HttpReceiver(self._name, self._config, intake.handle_http)
                running = receiver.run(self._listening)
            await self._until_broken(running)
        except ChannelBroken as error:
            self._health.broken(str(error))
            raise

    def intake(self, accept: Accept) -> Intake:
        """The doors for payloads, without a connection; call inside a running event loop."""
        client = self._api.client
        dispatcher = Dispatcher(accept, lambda: self._names.facts, client, self._revoked)
        return Intake(dispatcher, SignedRequests(self._config, self._clock, dispatcher))

    async def close(self) -> None:
        """Close connections; may be called twice."""
        await self._names.close()
        await self._api.close()

    def health(self) -> ChannelHealth:
        """The state now, judged by the connection."""
        return self._health.snapshot()

    async def _until_identified(self) -> None:
        """Own messages and mentions are known by our ids, so nothing is received without them."""
        pause_s = self._timings.backoff_s
        while not self._names.identity.user_ids:
            await self.check()
            if self._names.identity.user_ids:
                return
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, self._timings.max_backoff_s)

    async def _until_broken(self, running: Coroutine[None, None, None]) -> None:
        """Run the receiver; a send that Slack refuses for our account's sake ends it too."""
        tasks = [
            asyncio.create_task(running, name=f"slack receiver {self._name}"),
            asyncio.create_task(self._health.wait_broken(), name=f"slack watch {self._name}"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _listening(self, url: str) -> None:
        self._health.learn(listening=url)
        self._health.up()

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, part: OutboundPart) -> MessageRef:
        """chat.postMessage. The reply to slash words stands at the chat's root and begins a thread,
        whose id only this answer tells.
        """
        route = part.route
        text = render_part(part.text, part.progress)
        try:
            ts = await self._api.post(route.chat_id, route.thread, text, part.key)
        except Rejected as error:
            self._note_refusal(error)
            raise
        return _reference(route, ts)

    def measure(self, text: str) -> int:
        """UTF-8 bytes of the text as mrkdwn."""
        return measure(text)

    async def edit(self, ref: MessageRef, part: OutboundPart) -> None:
        """chat.update with the whole text."""
        channel, _, ts = ref.id.rpartition(":")
        try:
            await self._api.update(channel, ts, render_part(part.text, part.progress))
        except Rejected as error:
            self._note_refusal(error)
            raise

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        """Look for the part's key among the newest messages of its chat or thread."""
        oldest_s = self._clock.now_ms() // 1000 - _LOOK_BACK_S
        try:
            ts = await self._api.find(
                part.route.chat_id, part.route.thread, part.key, f"{max(oldest_s, 0)}.000000"
            )
        except (Rejected, OutcomeUnknown) as error:
            raise NotSent(f"channel {self._name}: cannot look it up: {error}") from error
        return None if ts is None else _reference(part.route, ts)

    async def typing(self, route: ReplyRoute, *, active: bool) -> None:
        """The assistant status, where Slack shows one: in threads."""
        if route.thread is None or not self._shows_status:
            return
        try:
            status = _THINKING if active else ""
            await self._api.set_status(route.chat_id, route.thread, status)
        except SendError as error:
            # A missing scope or an app without the feature will not change while we run.
            self._shows_status = not isinstance(error, Rejected)
            log.info("slack_status_not_shown", channel=self._name, error=str(error))

    # -- enriching ---------------------------------------------------------------------------------

    async def enrich(self, raw: str) -> InboundMessage:
        """Load the names and files that a message lacks; what cannot be had reads as its id."""
        return await self._names.complete(object_of(json.loads(raw)))

    def read_payload(self, headers: Mapping[str, str], body: bytes) -> InboundMessage | Ignored:
        """Parse a recorded request body, event or Socket Mode envelope."""
        return read_recorded(headers, body, self._config, self._names.facts)

    def _note_refusal(self, error: Rejected) -> None:
        if error.code in AUTH_CODES:
            self._health.broken(f"Slack refuses this account ({error}); {_TOKENS_HINT}")

    def _revoked(self, reason: str) -> None:
        self._health.broken(f"Slack says {reason}; {_TOKENS_HINT}")


def _reference(route: ReplyRoute, ts: str) -> MessageRef:
    begins_thread = route.thread is None and route.token == SLASH_TOKEN
    is_dm = route.chat_id.startswith("D")
    return MessageRef(
        id=f"{route.chat_id}:{ts}", thread=ts if begins_thread and not is_dm else None
    )
