"""An AI bot's long connection: subscribe, keep alive, connect again, and ask with an answer.

WeCom keeps one connection a bot: a second one ends the first. Frames are JSON: `cmd`, `headers`
with a `req_id`, `body`; an answer has `errcode` and no `cmd`.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
import structlog

from adapters.health import Health
from adapters.payload import Json, dump, object_of, parse, text_of
from adapters.wechat.failures import code_of
from adapters.wecom.config import WecomBotConfig
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

KICKED = "disconnected_event"
_KICKED_HINT = "kicked by another connection: something else runs this bot; stop one of them"
_CALLBACKS = frozenset({"aibot_msg_callback", "aibot_event_callback"})
_MAX_WAITING = 1_000
_MAX_FRAME_BYTES = 8 * 1024 * 1024
_REFUSALS_TO_GIVE_UP = 3
_BUSY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How patient the connection is; tests are less."""

    connect_s: float = 10.0
    answer_s: float = 10.0
    ping_s: float = 30.0
    backoff_s: float = 1.0
    max_backoff_s: float = 60.0
    kicked_s: float = 60.0
    max_kicked_s: float = 3_600.0


class Refusal(Exception):
    """WeCom does not take the bot's id and secret."""


class BotSocket:
    """The connection of one bot. `handle` is given callback frames, one after the other."""

    def __init__(
        self,
        config: WecomBotConfig,
        clock: Clock,
        health: Health,
        timings: Timings,
    ) -> None:
        self._config = config
        self._clock = clock
        self._health = health
        self._timings = timings
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._was_kicked = False

    async def run(self, handle: Callable[[Json], Awaitable[None]]) -> None:
        """Be connected until cancelled. Raises ChannelBroken when the bot stays refused."""
        refusals, pause_s, kicked_s = 0, self._timings.backoff_s, self._timings.kicked_s
        while True:
            began = self._clock.monotonic()
            try:
                await self._connect_once(handle)
                reason = _KICKED_HINT if self._was_kicked else "closed"
            except Refusal as error:
                refusals, reason = refusals + 1, str(error)
                if refusals >= _REFUSALS_TO_GIVE_UP:
                    raise ChannelBroken(
                        f"WeCom refuses this bot ({error}); check bot_id and secret"
                    ) from error
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                refusals = 0
            self._health.lost(reason)
            lasted_s = self._clock.monotonic() - began
            if lasted_s > self._timings.max_backoff_s:
                pause_s = self._timings.backoff_s
            if lasted_s > self._timings.max_kicked_s:
                kicked_s = self._timings.kicked_s
            wait_s = kicked_s if self._was_kicked else pause_s
            await self._clock.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            if self._was_kicked:
                # Two that kick each other would do so for ever; each round is longer.
                kicked_s = min(kicked_s * 2, self._timings.max_kicked_s)
            else:
                pause_s = min(pause_s * 2, self._timings.max_backoff_s)

    async def ask(self, command: str, body: Json, request: str = "") -> Json:
        """Send a frame and wait for its answer. Raises NotSent or OutcomeUnknown."""
        socket, request = self._socket, request or uuid.uuid4().hex
        if socket is None or socket.closed:
            raise NotSent(f"{command}: not connected", retry_after_s=self._timings.backoff_s)
        if request in self._answers:
            raise NotSent(f"{command}: another answer to this request is on its way")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[request] = answer
        try:
            await socket.send_str(
                dump({"cmd": command, "headers": {"req_id": request}, "body": dict(body)})
            )
            async with asyncio.timeout(self._timings.answer_s):
                return await answer
        except (ConnectionError, aiohttp.ClientError, TimeoutError) as error:
            raise OutcomeUnknown(f"{command}: no answer") from error
        finally:
            self._answers.pop(request, None)

    # -- one connection ----------------------------------------------------------------------------

    async def _connect_once(self, handle: Callable[[Json], Awaitable[None]]) -> None:
        self._was_kicked = False
        frames: asyncio.Queue[Json] = asyncio.Queue(_MAX_WAITING)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timings.connect_s)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async with asyncio.timeout(self._timings.connect_s):
                socket = await session.ws_connect(
                    self._config.socket_url, max_msg_size=_MAX_FRAME_BYTES
                )
            self._socket = socket
            reading = asyncio.create_task(self._read(socket, frames), name="bot frames")
            others: list[asyncio.Task[None]] = []
            try:
                await self._subscribe(reading)
                self._health.up()
                others = [
                    asyncio.create_task(self._keep_alive(socket), name="bot ping"),
                    asyncio.create_task(_hand_over(frames, handle), name="bot callbacks"),
                ]
                done, _ = await asyncio.wait(
                    {reading, *others}, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
            finally:
                self._socket = None
                for task in (reading, *others):
                    task.cancel()
                await asyncio.gather(reading, *others, return_exceptions=True)
                self._fail_answers()
                with suppress(aiohttp.ClientError, TimeoutError, OSError):
                    async with asyncio.timeout(1.0):
                        await socket.close()

    async def _subscribe(self, reading: asyncio.Task[None]) -> None:
        secret = self._config.secret
        body = {
            "bot_id": self._config.bot_id,
            "secret": "" if secret is None else secret.get_secret_value(),
        }
        asking = asyncio.create_task(self.ask("aibot_subscribe", body), name="bot subscribe")
        try:
            await asyncio.wait({asking, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionResetError("closed before the subscription was answered")
            answer = asking.result()
        except (NotSent, OutcomeUnknown) as error:
            raise ConnectionResetError("the subscription was not answered") from error
        finally:
            asking.cancel()
        if code_of(answer) == _BUSY:
            raise ConnectionResetError("WeCom is busy")
        if code_of(answer):
            raise Refusal(f"{code_of(answer)} {text_of(answer.get('errmsg'))}".strip())

    async def _read(
        self, socket: aiohttp.ClientWebSocketResponse, frames: asyncio.Queue[Json]
    ) -> None:
        """Sort frames until the connection ends or WeCom says that another one took over."""
        async for message in socket:
            frame = parse(message.data) if message.type is aiohttp.WSMsgType.TEXT else None
            if frame is None:
                continue
            command = text_of(frame.get("cmd"))
            if command in _CALLBACKS:
                event = object_of(object_of(frame.get("body")).get("event"))
                if event.get("eventtype") == KICKED:
                    self._was_kicked = True
                    return
                await frames.put(frame)
            elif not command:
                request = text_of(object_of(frame.get("headers")).get("req_id"))
                answer = self._answers.get(request)
                if answer is not None and not answer.done():
                    answer.set_result(frame)

    async def _keep_alive(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Ping; without an answer the connection counts as dead."""
        while True:
            await self._clock.sleep(self._timings.ping_s)
            try:
                await self.ask("ping", {})
            except (NotSent, OutcomeUnknown) as error:
                log.info("bot_ping_unanswered", error=str(error))
                await socket.close()
                return

    def _fail_answers(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the connection ended"))


async def _hand_over(
    frames: asyncio.Queue[Json], handle: Callable[[Json], Awaitable[None]]
) -> None:
    """In order of arrival; reading goes on meanwhile, so that answers to our frames are seen."""
    while True:
        await handle(await frames.get())
