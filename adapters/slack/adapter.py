"""One Slack app, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  socket | http  →  dispatch (parse, accept, ack)
    send:     messenger (stream, post, edit)  →  outbound (Markdown)  →  chat_api

References and routes made here are opaque to everybody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from adapters.health import Health
from adapters.payload import object_of
from adapters.slack.api import SlackApi
from adapters.slack.chat_api import ChatApi
from adapters.slack.config import SlackConfig
from adapters.slack.dispatch import Dispatcher
from adapters.slack.facts import SCOPES, SLASH_TOKEN, Identity
from adapters.slack.failures import AUTH_CODES
from adapters.slack.http import HttpReceiver, SignedRequests
from adapters.slack.intake import Intake
from adapters.slack.messenger import Messenger
from adapters.slack.names import Directory
from adapters.slack.outbound import MAX_SIZE, measure
from adapters.slack.pacing import Pacer
from adapters.slack.recorded import read_recorded
from adapters.slack.references import Reference
from adapters.slack.signs import Signs
from adapters.slack.socket import SocketReceiver, Timings
from adapters.slack.surfaces import Surfaces
from adapters.slack.threads import ThreadHistory
from adapters.slack.uploads import MAX_FILE_BYTES, Uploads
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected, SendError
from clawbot.messages import (
    Attachment,
    ChannelHealth,
    Ignored,
    InboundMessage,
    Limits,
    MessageRef,
    OutboundPart,
    ReplyRoute,
)
from clawbot.ports import Accept, Amend, ChangeNote, Clock, Overview

log = structlog.get_logger(__name__)

_EDIT_INTERVAL_S = 0.6  # of a stream; the messenger spaces out what is slower
_TOKENS_HINT = "check bot_token and app_token, or install the app again"


def open_adapter(
    name: str, config: SlackConfig, clock: Clock, *, timings: Timings | None = None
) -> SlackAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return SlackAdapter(name, config, clock, timings or Timings())


class SlackAdapter:
    """A `ChannelAdapter` that can also edit, upload, look up, enrich and show signs and health."""

    limits = Limits(
        max_size=MAX_SIZE,
        edit_interval_s=_EDIT_INTERVAL_S,
        ends_growth=True,
        max_file_bytes=MAX_FILE_BYTES,
    )

    def __init__(self, name: str, config: SlackConfig, clock: Clock, timings: Timings) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._timings = timings
        self._api = SlackApi(config)
        self._names = Directory(name, self._api, clock)
        self._health = Health(name)
        self._amend: Amend | None = None
        chat, pacer = ChatApi(self._api), Pacer(clock)
        self._pacer = pacer
        self._messenger = Messenger(name, chat, pacer, clock, streams=config.streaming)
        self._uploads = Uploads(name, self._api, chat, pacer)
        self._messenger.people = lambda: self._names.people
        self._surfaces = Surfaces(name, chat, self._names, config.suggested_prompts)
        self._threads = ThreadHistory(name, chat, self._names)
        self._signs = Signs(name, chat, clock, emoji=config.typing_reaction)

    # -- life cycle --------------------------------------------------------------------------------

    async def check(self) -> ChannelHealth:
        """auth.test with the bot token and, in socket mode, apps.connections.open with the app's.

        Raises ChannelBroken if Slack refuses a token; an unreachable Slack is `degraded`.
        """
        try:
            self.adopt(await self._api.identify())
            self._remark_scopes()
            if self._config.mode == "socket":
                await self._api.open_socket()
        except Rejected as error:
            self._health.broken(f"Slack refuses this account ({error}); {_TOKENS_HINT}")
            raise ChannelBroken(f"channel {self._name}: {self.health().detail}") from error
        except SendError as error:
            self._health.lost(str(error))
        return self._health.snapshot()

    def _remark_scopes(self) -> None:
        missing = sorted(SCOPES - self._api.scopes) if self._api.scopes else []
        remark = f"missing scopes: {', '.join(missing)}; install the app again with them"
        self._health.remark(remark if missing else "")

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

    def amend_with(self, amend: Amend) -> None:
        """Report edits and deletions there from now on."""
        self._amend = amend

    def share_with(self, change: ChangeNote, processes: Callable[[], int]) -> None:  # noqa: ARG002
        """Keep to a share of Slack's rates when the app's events go to several processes."""
        self._pacer.processes = processes

    def overview_with(self, overview: Overview) -> None:
        """Show that on the Home tab from now on."""
        self._surfaces.overview = overview

    def intake(self, accept: Accept) -> Intake:
        """The doors for payloads, without a connection; call inside a running event loop."""
        client = self._api.client
        dispatcher = Dispatcher(
            accept,
            lambda: self._names.facts,
            client,
            self._revoked,
            self._amend,
            self._surfaces.notice,
        )
        return Intake(dispatcher, SignedRequests(self._config, self._clock, dispatcher))

    async def close(self) -> None:
        """Close connections; may be called twice."""
        await self._surfaces.close()
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
        """Stream a growing text where Slack allows it, else post. The reply to slash words stands
        at the chat's root and begins a thread, whose id only this answer tells.
        """
        with self._account_watched():
            reference = await self._messenger.send(part)
        if reference.is_stream:
            await self._signs.progress(part.route, part.progress)
        return _message_ref(part.route, reference)

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """Send a file as a message of its own, in the thread of the reply."""
        if part.file is None:
            raise Rejected("no file in this part", code="no_file")
        with self._account_watched():
            reference = await self._uploads.send(part, part.file, data)
        return MessageRef(id=reference.encode())

    def measure(self, text: str) -> int:
        """See `outbound.measure`."""
        return measure(text)

    async def edit(self, ref: MessageRef, part: OutboundPart) -> None:
        """Show the whole text; a change of a text that still grows may be left out."""
        reference = Reference.decode(ref.id)
        with self._account_watched():
            await self._messenger.edit(reference, part)
        if reference.is_stream and not part.is_final:
            await self._signs.progress(part.route, part.progress)

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        """Look for the part's key among the newest messages of its chat or thread."""
        try:
            found = await self._messenger.find(part, self._names.identity)
        except (Rejected, OutcomeUnknown) as error:
            raise NotSent(f"channel {self._name}: cannot look it up: {error}") from error
        return None if found is None else _message_ref(part.route, found)

    async def typing(self, route: ReplyRoute, *, active: bool, mark: str = "") -> None:
        """The assistant's status in threads, a reaction elsewhere; neither has a mark."""
        del mark
        await self._signs.show(route, active=active)

    @contextmanager
    def _account_watched(self) -> Iterator[None]:
        """A refusal of the account itself ends the channel; the reply waits for an admin."""
        try:
            yield
        except Rejected as error:
            if error.code not in AUTH_CODES:
                raise
            self._health.broken(f"Slack refuses this account ({error}); {_TOKENS_HINT}")
            raise NotSent(str(error)) from error

    # -- enriching ---------------------------------------------------------------------------------

    async def enrich(self, raw: str) -> InboundMessage:
        """Load the names and files that a message lacks; what cannot be had reads as its id."""
        return await self._names.complete(object_of(json.loads(raw)))

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Load a file that Slack keeps, with the bot's token."""
        return await self._api.download(attachment, max_bytes)

    async def earlier(self, raw: str, limit: int) -> Sequence[InboundMessage]:
        """What stood in the message's thread before it, as far as Slack tells."""
        return await self._threads.before(raw, limit)

    def read_payload(self, headers: Mapping[str, str], body: bytes) -> InboundMessage | Ignored:
        """Parse a recorded request body, event or Socket Mode envelope."""
        return read_recorded(headers, body, self._config, self._names.facts)

    def _revoked(self, reason: str) -> None:
        self._health.broken(f"Slack says {reason}; {_TOKENS_HINT}")


def _message_ref(route: ReplyRoute, reference: Reference) -> MessageRef:
    begins_thread = route.thread is None and route.token == SLASH_TOKEN
    is_dm = route.chat_id.startswith("D")
    return MessageRef(
        id=reference.encode(), thread=reference.ts if begins_thread and not is_dm else None
    )
