"""Gets a part of a reply into its chat and keeps it up to date while its text grows.

In threads a growing text is streamed; elsewhere, and wherever a stream fails us, the message is
replaced whole. An append is not idempotent and a stream ends by itself when it waits too long:
after any doubt the stream is stopped and the whole text replaces it. Only the last text must
arrive; what lies between is left out when Slack has no room for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from adapters.payload import Json, text_of
from adapters.recent import Recent
from adapters.slack.chat_api import ChatApi, key_of
from adapters.slack.facts import Identity
from adapters.slack.failures import AUTH_CODES, BLOCK_CODES, NO_STREAM_CODES
from adapters.slack.outbound import Content, People, compose, grown, whole_text
from adapters.slack.pacing import Pacer
from adapters.slack.references import Asked, Reference
from adapters.slack.uploads import may_be_file_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError
from clawbot.messages import OutboundPart, ReplyRoute
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_UPDATE_GAP_S = 1.2
_KEPT_S = 3600.0
_MAX_GROWING = 5_000
_NO_STREAM_S = 600.0
_LOOK_BACK_S = 7 * 24 * 3600
_SKEW_S = 300  # by which Slack's clock may differ from ours


@dataclass(slots=True)
class _State:
    """What this process knows of a message. streamed: what surely stands in a stream that is open;
    None = there is none, or none that we know of. shown: what an update made of the message.
    """

    streamed: str | None = None
    is_stopped: bool = False
    shown: Content | None = None
    update_from: float = 0.0


class Messenger:
    """Sends and changes messages of one account. streams: whether growing texts are streamed."""

    def __init__(
        self, channel: str, chat: ChatApi, pacer: Pacer, clock: Clock, *, streams: bool
    ) -> None:
        self._channel = channel
        self._chat = chat
        self._pacer = pacer
        self._clock = clock
        self._streams = streams
        self._states: Recent[_State] = Recent(clock, kept_s=_KEPT_S, at_most=_MAX_GROWING)
        self._not_streamed: Recent[bool] = Recent(clock, kept_s=_NO_STREAM_S, at_most=_MAX_GROWING)
        self.people: Callable[[], People] = People

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, part: OutboundPart) -> Reference:
        """Send a part; raises as `ports.ChannelAdapter.send`."""
        chat_id = part.route.chat_id
        await self._pacer.post_turn(chat_id)
        if not part.is_final and self._may_stream(part.route):
            reference = await self._start_stream(part)
            if reference is not None:
                return reference
        content = self._content(part)
        ts = await self._post(part.route, content, part)
        shown = _State(is_stopped=True, shown=content, update_from=self._next_update())
        self._states.remember(ts, shown)
        return Reference(channel=chat_id, ts=ts)

    def _may_stream(self, route: ReplyRoute) -> bool:
        asked = Asked.decode(route.token)
        has_reader = bool(asked.user_id and asked.team_id) or route.chat_id.startswith("D")
        return (
            self._streams
            and route.thread is not None
            and has_reader
            and route.chat_id not in self._not_streamed
            and self._pacer.has_room("chat.startStream", "chat.stopStream", "chat.appendStream")
        )

    async def _start_stream(self, part: OutboundPart) -> Reference | None:
        """Begin a stream; None when Slack surely did not and a post must do."""
        route, asked = part.route, Asked.decode(part.route.token)
        text = grown(part.text, self.people(), is_final=False)
        if not text.strip():
            return None
        self._pacer.spend("chat.startStream")
        try:
            ts = await self._chat.start_stream(
                route.chat_id, route.thread or "", text, asked.user_id, asked.team_id
            )
        except NotSent as error:
            self._pacer.note(error, "chat.startStream")
            return None
        except Rejected as error:
            if error.code in AUTH_CODES:
                raise
            log.info("slack_not_streamed", channel=self._channel, error=str(error))
            self._not_streamed.remember(route.chat_id, value=True)
            return None
        self._states.remember(ts, _State(streamed=text))
        return Reference(channel=route.chat_id, ts=ts, is_stream=True)

    async def _post(self, route: ReplyRoute, content: Content, part: OutboundPart) -> str:
        chat_id = route.chat_id
        try:
            try:
                return await self._chat.post(chat_id, route.thread, content, part.key, plain=False)
            except Rejected as error:
                if error.code not in BLOCK_CODES:
                    raise
                log.info("slack_block_refused", channel=self._channel, error=str(error))
            plain = replace(content, text=whole_text(part.text))
            return await self._chat.post(chat_id, route.thread, plain, part.key, plain=True)
        except NotSent as error:
            self._pacer.note(error, "chat.postMessage", chat_id)
            raise

    # -- growing -----------------------------------------------------------------------------------

    async def edit(self, reference: Reference, part: OutboundPart) -> None:
        """Make the message show the part; see `ports.Editor`. A change that is not the last one may
        be left out.
        """
        if reference.file_id:
            return
        state = self._states.get(reference.ts) or _State(is_stopped=not reference.is_stream)
        self._states.remember(reference.ts, state)
        if state.streamed is not None and await self._grow(reference, state, part):
            return
        content = self._content(part)
        if state.shown == content:
            return
        try:
            await self._replace(reference, state, part, content)
        except Rejected as error:
            if error.code in AUTH_CODES:
                raise
            if part.is_revision:
                raise
            if part.is_final:
                await self._send_anew(reference, part, content, error)
            else:
                log.info("slack_change_left_out", channel=self._channel, error=str(error))
        except SendError as error:
            if part.is_final:
                raise
            log.info("slack_change_left_out", channel=self._channel, error=str(error))

    async def _grow(self, reference: Reference, state: _State, part: OutboundPart) -> bool:
        """Append to the stream, or end it with the last text; False when the whole text must
        replace it.
        """
        before, text = state.streamed, grown(part.text, self.people(), is_final=part.is_final)
        if before is None or not text.startswith(before):
            return False
        more = text[len(before) :]
        method = "chat.stopStream" if part.is_final else "chat.appendStream"
        if not part.is_final and (not more or not self._pacer.has_room(method)):
            return True
        state.streamed = None  # until Slack says that it took this
        try:
            self._pacer.check(method)
            self._pacer.spend(method)
            if part.is_final:
                await self._chat.stop_stream(reference.channel, reference.ts, more, part.key)
                state.is_stopped = True
            else:
                await self._chat.append(reference.channel, reference.ts, more)
                state.streamed = text
        except NotSent as error:
            state.streamed = before
            self._pacer.note(error, method)
            if part.is_final:
                raise
        except (Rejected, OutcomeUnknown) as error:
            if isinstance(error, Rejected) and error.code in AUTH_CODES:
                raise
            log.info("slack_stream_in_doubt", channel=self._channel, error=str(error))
            return False
        return True

    async def _replace(
        self, reference: Reference, state: _State, part: OutboundPart, content: Content
    ) -> None:
        """Show the whole text, in a message that is no stream any more."""
        if not part.is_final:
            if not self._pacer.has_room("chat.update"):
                return
            await self._clock.sleep(max(state.update_from - self._clock.monotonic(), 0.0))
        if not state.is_stopped:
            await self._stop(reference, part)
            state.streamed, state.is_stopped = None, True
        try:
            await self._update(reference, content, part)
        except Rejected as error:
            if error.code not in NO_STREAM_CODES:
                raise
            state.is_stopped = False
            raise NotSent(str(error)) from error
        state.shown, state.update_from = content, self._next_update()

    async def _update(self, reference: Reference, content: Content, part: OutboundPart) -> None:
        method = "chat.update"
        self._pacer.check(method)
        self._pacer.spend(method)
        channel, ts = reference.channel, reference.ts
        try:
            try:
                await self._chat.update(channel, ts, content, part.key, plain=False)
            except Rejected as error:
                if error.code not in BLOCK_CODES:
                    raise
                log.info("slack_block_refused", channel=self._channel, error=str(error))
                await self._chat.update(channel, ts, content, part.key, plain=True)
        except NotSent as error:
            self._pacer.note(error, method)
            raise

    async def _stop(self, reference: Reference, part: OutboundPart) -> None:
        """End a stream that may be open; one that is not is as good."""
        method = "chat.stopStream"
        self._pacer.check(method)
        self._pacer.spend(method)
        try:
            await self._chat.stop_stream(reference.channel, reference.ts, "", part.key)
        except NotSent as error:
            self._pacer.note(error, method)
            raise
        except Rejected as error:
            if error.code in AUTH_CODES:
                raise
            log.info("slack_stream_ended", channel=self._channel, error=str(error))

    async def _send_anew(
        self, reference: Reference, part: OutboundPart, content: Content, error: Rejected
    ) -> None:
        """The last text must be readable: in a message of its own, where the old one cannot be
        changed any more. It is looked for first, because this may be the second attempt.
        """
        if not re.search(r"\w", part.text):
            raise error
        log.warning("slack_sent_anew", channel=self._channel, error=str(error))
        fresh = replace(part, key=f"{part.key}:anew")
        chat_id, thread = part.route.chat_id, part.route.thread
        try:
            if await self._chat.find(chat_id, thread, fresh.key, reference.ts) is not None:
                return
            await self._pacer.post_turn(chat_id)
            await self._post(part.route, content, fresh)
        except Rejected as refusal:
            raise error from refusal

    def _content(self, part: OutboundPart) -> Content:
        buttons = tuple((choice.label, choice.command) for choice in part.choices)
        return replace(compose(part.text, part.progress, self.people()), buttons=buttons)

    def _next_update(self) -> float:
        return self._clock.monotonic() + _UPDATE_GAP_S

    # -- looking up --------------------------------------------------------------------------------

    async def find(self, part: OutboundPart, own: Identity) -> Reference | None:
        """The message that an earlier attempt left, brought up to date; None = surely not there.

        It is known by its key, or, as a stream has none before it ends, by beginning with the same
        words in the same thread without being any other part's; a file of which Slack dropped the
        key, by its name and size.
        """
        route = part.route
        tried_s = part.tried_ms // 1000 - _SKEW_S
        oldest_s = max(self._clock.now_ms() // 1000 - _LOOK_BACK_S, tried_s, 0)
        found: Reference | None = None
        async for message in self._chat.messages(route.chat_id, route.thread, f"{oldest_s}.000000"):
            ts = text_of(message.get("ts"))
            key = key_of(message)
            if key == part.key:
                found = Reference(channel=route.chat_id, ts=ts)
                break
            if part.file is not None:
                if may_be_file_of(message, part, own):
                    found = Reference(channel=route.chat_id, ts=ts)
            elif not key and ts not in self._states and _may_be_stream_of(message, part, own):
                found = Reference(channel=route.chat_id, ts=ts, is_stream=True)
        if found is not None and part.file is None:
            await self._bring_up_to_date(found, part)
        return found

    async def _bring_up_to_date(self, reference: Reference, part: OutboundPart) -> None:
        """The text may have grown since that attempt, and nobody else will look again."""
        try:
            await self.edit(reference, part)
        except (Rejected, OutcomeUnknown) as error:
            if isinstance(error, OutcomeUnknown):
                raise NotSent(str(error)) from error
            log.warning("slack_found_but_not_edited", channel=self._channel, error=str(error))


def _may_be_stream_of(message: Json, part: OutboundPart, own: Identity) -> bool:
    """Whether a message of ours without a key is what startStream made of the part's beginning."""
    is_ours = text_of(message.get("user")) in own.user_ids or (
        text_of(message.get("bot_id")) in own.bot_ids
    )
    said = re.findall(r"\w+", text_of(message.get("text")))
    wanted = re.findall(r"\w+", grown(part.text))
    is_beginning = bool(said) and said[:-1] == wanted[: len(said) - 1]
    return part.route.thread is not None and is_ours and is_beginning
