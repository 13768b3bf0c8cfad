"""One Feishu or Lark app, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  long connection | webhook  →  dispatch (learn, parse, accept, ack)
    send:     outbound (Markdown → text, post, card)  →  api

References and routes made here are opaque to everybody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager

import structlog

from adapters.feishu.api import FeishuApi
from adapters.feishu.config import FeishuConfig
from adapters.feishu.dispatch import Dispatcher
from adapters.feishu.facts import Identity
from adapters.feishu.failures import AUTH_CODES
from adapters.feishu.files import MAX_FILE_BYTES
from adapters.feishu.finding import Finder
from adapters.feishu.growth import Growth
from adapters.feishu.http import HttpReceiver, SealedRequests
from adapters.feishu.intake import Intake
from adapters.feishu.long_connection import LongConnection, Timings
from adapters.feishu.messenger import Messenger
from adapters.feishu.names import Directory
from adapters.feishu.outbound import MAX_SIZE, measure
from adapters.feishu.posts import resource_of
from adapters.feishu.recorded import read_recorded
from adapters.feishu.references import Asked
from adapters.feishu.signs import Signs
from adapters.feishu.threads import TopicHistory
from adapters.health import Health
from adapters.payload import object_of
from clawbot.errors import ChannelBroken, NotLoaded, NotSent, OutcomeUnknown, Rejected, SendError
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
from clawbot.ports import Accept, Amend, ChangeNote, Clock

log = structlog.get_logger(__name__)

_EDIT_INTERVAL_S = 0.5
_UUID_KEPT_S = 3600.0 - 120.0  # an hour, but what is repeated must arrive within it
_SECRET_HINT = "check app_id, app_secret and domain, and that the app is published"  # noqa: S105


def open_adapter(
    name: str, config: FeishuConfig, clock: Clock, *, timings: Timings | None = None
) -> FeishuAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return FeishuAdapter(name, config, clock, timings or Timings())


class FeishuAdapter:
    """A `ChannelAdapter` that can also edit, enrich, show that it works and tell its health."""

    limits = Limits(
        max_size=MAX_SIZE,
        edit_interval_s=_EDIT_INTERVAL_S,
        has_idempotency_keys=True,
        idempotency_s=_UUID_KEPT_S,
        ends_growth=True,
        max_file_bytes=MAX_FILE_BYTES,
    )

    def __init__(self, name: str, config: FeishuConfig, clock: Clock, timings: Timings) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._timings = timings
        self._api = FeishuApi(config, clock)
        self._directory = Directory(name, config, self._api, clock)
        self._health = Health(name)
        self._messenger = Messenger(name, config, self._api, clock)
        self._finder = Finder(self._api, config.app_id)
        self._growth = Growth(name, self._api, self._messenger, clock)
        self._topics = TopicHistory(name, self._api, self._directory)
        self._amend: Amend | None = None
        self._signs = Signs(name, config.typing_reaction, self._api, clock)

    # -- life cycle --------------------------------------------------------------------------------

    async def check(self) -> ChannelHealth:
        """Fetch the tenant token and ask who the bot is.

        Raises ChannelBroken if Feishu refuses the app; an unreachable Feishu is `degraded`.
        """
        try:
            self.adopt(await self._api.identify())
        except Rejected as error:
            self._health.broken(f"Feishu refuses this app ({error}); {_SECRET_HINT}")
            raise ChannelBroken(f"channel {self._name}: {self.health().detail}") from error
        except SendError as error:
            self._health.lost(str(error))
        return self._health.snapshot()

    def adopt(self, identity: Identity) -> None:
        """Take this for who we are; `check` does so with what Feishu says."""
        self._directory.identity = identity
        self._health.learn(
            bot=identity.name,
            open_id=identity.open_id,
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
            if self._config.mode == "webhook":
                receiver = HttpReceiver(self._name, self._config, intake.handle_http)
                running = receiver.run(self._listening)
            else:
                connection = LongConnection(
                    self._api, self._health, intake.handle_event, self._timings
                )
                running = connection.run()
            await self._until_broken(running)
        except ChannelBroken as error:
            self._health.broken(str(error))
            raise

    def share_with(self, change: ChangeNote, processes: Callable[[], int]) -> None:  # noqa: ARG002
        """Keep to a share of Feishu's rates when the app's events go to several processes."""
        self._api.share_with(processes)

    def amend_with(self, amend: Amend) -> None:
        """Report recalled messages there from now on; Feishu tells bots of no edits."""
        self._amend = amend

    def intake(self, accept: Accept) -> Intake:
        """The doors for payloads, without a connection; call inside a running event loop."""
        dispatcher = Dispatcher(self._name, accept, self._directory, self._amend)
        requests = SealedRequests(self._name, self._config, self._clock, dispatcher)
        return Intake(dispatcher, requests)

    async def close(self) -> None:
        """Close connections; may be called twice."""
        await self._signs.clear()
        await self._directory.close()
        await self._api.close()

    def health(self) -> ChannelHealth:
        """The state now, judged by the connection."""
        return self._health.snapshot()

    async def _until_identified(self) -> None:
        """Own messages and mentions are known by our id, so nothing is received without it."""
        pause_s = self._timings.backoff_s
        while not self._is_identified():
            await self.check()
            if self._is_identified():
                return
            self._health.lost("Feishu does not say who the bot is; add the feature Bot to the app")
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, self._timings.max_backoff_s)

    def _is_identified(self) -> bool:
        return bool(self._directory.identity.open_id)

    async def _until_broken(self, running: Coroutine[None, None, None]) -> None:
        """Run the receiver; a send that Feishu refuses for our account's sake ends it too."""
        tasks = [
            asyncio.create_task(running, name=f"feishu receiver {self._name}"),
            asyncio.create_task(self._health.wait_broken(), name=f"feishu watch {self._name}"),
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
        """Send a part once, however often it is tried: its key is Feishu's `uuid`."""
        async with self._account_watched():
            delivered = await self._messenger.send(part)
            if not delivered.is_certain:
                try:
                    await self._growth.edit(delivered.ref.id, part)
                except NotSent as error:
                    raise OutcomeUnknown(str(error)) from error  # only the text is not shown yet
            return delivered.ref

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """Send a file, as what it is; its key makes the message unique, as in `send`."""
        if part.file is None:
            raise ValueError("upload without a file")
        async with self._account_watched():
            return await self._messenger.upload(part, part.file, data)

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        """Find a part whose `uuid` Feishu has forgotten; see `finding`."""
        async with self._account_watched():
            record = await self._finder.find(part)
            return None if record is None else await self._messenger.reference_to(part, record)

    def measure(self, text: str) -> int:
        """See `outbound.measure`."""
        return measure(text)

    async def edit(self, ref: MessageRef, part: OutboundPart) -> None:
        """Show the whole text; an update of a text that still grows may be left out."""
        async with self._account_watched():
            await self._growth.edit(ref.id, part)

    async def typing(self, route: ReplyRoute, *, active: bool, mark: str = "") -> str | None:
        """A reaction on the message that is being answered; its mark is the reaction's id."""
        asked = Asked.decode(route.token).message_id
        return await self._signs.show(asked, active=active, mark=mark) if asked else None

    @asynccontextmanager
    async def _account_watched(self) -> AsyncIterator[None]:
        """A refusal of the app itself ends the channel; the reply waits for an admin to help."""
        try:
            yield
        except Rejected as error:
            if error.code not in AUTH_CODES:
                raise
            self._health.broken(f"Feishu refuses this app ({error}); {_SECRET_HINT}")
            raise NotSent(str(error)) from error

    # -- reading more ------------------------------------------------------------------------------

    async def enrich(self, raw: str) -> InboundMessage:
        """Load the names and messages that a message lacks; what cannot be had reads as its id."""
        return await self._directory.complete(object_of(json.loads(raw)))

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Load a file that Feishu keeps with its message."""
        try:
            data = await self._api.resource(*resource_of(attachment.source), max_bytes)
        except Rejected as error:
            raise NotLoaded(f"Feishu does not give it out (code {error.code})") from error
        except SendError as error:
            raise NotLoaded("the connection to Feishu broke off") from error
        if len(data) > max_bytes:
            raise NotLoaded(f"it is larger than {max_bytes:,} bytes")
        return data

    async def earlier(self, raw: str, limit: int) -> Sequence[InboundMessage]:
        """What stood in the message's topic before it, as far as Feishu tells."""
        return await self._topics.before(raw, limit)

    def read_payload(self, headers: Mapping[str, str], body: bytes) -> InboundMessage | Ignored:
        """Parse a recorded request body or the payload of a frame."""
        return read_recorded(headers, body, self._config, self._directory.facts)
