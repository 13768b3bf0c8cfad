"""Getting one reply into its chat, part by part, and keeping it up to date while it grows.

A part is recorded before it is sent and after, so that a kill in between leaves a question (was it
taken?) and never a silent second message.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from clawbot.errors import (
    LeaseLost,
    NotSent,
    OutcomeUnknown,
    Rejected,
    SendError,
    StoreUnavailable,
    WindowClosed,
    new_error_id,
)
from clawbot.lease import Heartbeat
from clawbot.messages import MessageRef, OutboundFile, OutboundPart
from clawbot.permit import Permit
from clawbot.ports import (
    ChannelAdapter,
    Clock,
    Editor,
    Lookup,
    Store,
    T,
    Transaction,
    Unit,
    Uploader,
)
from clawbot.splitting import split
from clawbot.store import blobs, outbox
from clawbot.store.outbox import OutboxRow

log = structlog.get_logger(__name__)

STORE_RETRY_S = 1.0
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
GIVE_UP_AFTER_MS = 24 * 3_600_000
LEFTOVER = "—"
UPLOAD_BYTES_PER_S = 250_000  # the slowest line on which a file is waited for
OPEN = frozenset({"streaming", "pending", "sending"})


@dataclass(slots=True, kw_only=True)
class Shown:
    """What this process knows to stand in the chat, per part: (text, progress).

    growing: the parts that the chat shows as unfinished, where the platform does so.
    """

    parts: dict[int, tuple[str, str]] = field(default_factory=dict)
    growing: set[int] = field(default_factory=set)
    edited_at: float = float("-inf")
    edits_refused: bool = False


class ReplySender:
    """Sends single replies through an adapter; it keeps nothing of them between two calls."""

    def __init__(
        self, store: Store, clock: Clock, heartbeat: Heartbeat, adapter: ChannelAdapter
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._holder = heartbeat.process_id
        self._adapter = adapter
        self.permit = Permit(heartbeat)
        self.last_sent_ms: int | None = None

    def begin(self) -> Shown:
        """What is known of a reply that was just claimed: nothing."""
        return Shown()

    def split(self, text: str) -> list[str]:
        """Cut a reply's text into the parts of this platform."""
        return split(text, self._adapter.limits.max_size, self._adapter.measure)

    async def bring_up_to_date(self, row: OutboxRow, shown: Shown) -> OutboxRow:
        """Send or edit parts until the chat shows the row's text; return the row as it is then.

        Its state says what comes next: `streaming` = wait for growth, all others = it has ended or
        was given back. Raise LeaseLost when others may have taken it over.
        """
        if row.file is not None:
            row = self._as_file_or_text(row, row.file)
        texts = self.split(row.text)
        if row.state == "streaming" and not row.text.strip():
            return row
        number = 0
        try:
            for number, text in enumerate(texts):
                progress = row.progress if number == len(texts) - 1 else ""
                part = row.parts.get(number)
                if part is not None and part.state == "sent":
                    await self._edit(row, number, text, progress, shown)
                else:
                    row = await self._send(row, number, progress, texts, shown)
                    if number not in shown.parts and row.state in OPEN:
                        # Found by a look-up: it shows the text of the time when it was sent.
                        await self._edit(row, number, text, progress, shown)
                if row.state not in OPEN:
                    return row
            if row.state == "streaming":
                return row
            for number in sorted(row.parts.keys() - range(len(texts))):
                await self._edit(row, number, LEFTOVER, "", shown)
        except SendError as error:
            return await self._after_failure(row, number, error)
        except LeaseLost:
            raise
        except Exception:
            # The boundary of a reply: one that cannot be sent must not end the whole channel.
            error_id = new_error_id()
            log.exception("reply_crashed", outbox_id=row.id, error_id=error_id)
            return await self._settle(row, "dead", f"crashed:{error_id}")
        return await self._settle(row, "sent", "")

    async def _after_failure(self, row: OutboxRow, number: int, error: SendError) -> OutboxRow:
        if isinstance(error, NotSent):
            return await self._retry_later(row, number, error.retry_after_s)
        if isinstance(error, OutcomeUnknown):
            return await self._question(row, number, str(error))
        if isinstance(error, WindowClosed):
            return await self._settle(row, "held", "no_window")
        code = error.code if isinstance(error, Rejected) else ""
        log.error("reply_rejected", channel=row.channel, outbox_id=row.id, code=code)
        return await self._settle(row, "dead", code or "rejected")

    async def _send(
        self, row: OutboxRow, number: int, progress: str, texts: list[str], shown: Shown
    ) -> OutboxRow:
        """Get one part into the chat; where it is in doubt, ask first."""
        text = texts[number]
        part = row.parts.get(number)
        if part is None:
            row = await self._begin(row, number, text)
            part = row.parts[number]
        outgoing = replace(
            self._part(row, number, text, progress, len(texts)),
            is_repeated=part.state == "unknown",
            tried_ms=part.begun_ms or row.created_ms,
        )
        ref = None
        if part.state == "unknown" and not self._knows_key_of(outgoing):
            try:
                ref = await self._look_up(outgoing)
            except Rejected as error:
                log.warning("reply_not_found", channel=row.channel, error=str(error))
                return await self._settle(row, "unknown", "no_answer")
            if ref is None:
                row = await self._begin(row, number, text)
            else:
                shown.growing.add(number)  # it may look unfinished
        if ref is None:
            self.permit.check()
            ref = await self._post(outgoing)
            self._note_shown(shown, number, outgoing)
        self.last_sent_ms = self._clock.now_ms()
        if outgoing.is_inline and number + 1 < len(texts):
            return await self._write(partial(self._give_back_rest, row=row, number=number, ref=ref))
        has_next = number + 1 < len(texts)
        is_last = not has_next and len(row.parts) <= len(texts)
        is_end = is_last and row.state != "streaming" and number in shown.parts
        return await self._write(
            partial(
                self._record_sent,
                row=row,
                number=number,
                ref=ref,
                next_text=texts[number + 1] if has_next and number + 1 not in row.parts else None,
                is_end=is_end,
            )
        )

    async def _begin(self, row: OutboxRow, number: int, text: str) -> OutboxRow:
        """Note that a part is about to be sent, and not before now."""
        return await self._write(
            partial(
                outbox.begin_part,
                row=row,
                holder=self._holder,
                part_no=number,
                text=text,
                now_ms=self._clock.now_ms(),
            )
        )

    def _knows_key_of(self, part: OutboundPart) -> bool:
        """Whether the platform still knows the key under which a part may have been taken."""
        limits = self._adapter.limits
        age_ms = self._clock.now_ms() - part.tried_ms
        is_kept = not limits.idempotency_s or age_ms < limits.idempotency_s * 1000
        return limits.has_idempotency_keys and is_kept

    async def _look_up(self, part: OutboundPart) -> MessageRef | None:
        """Find a part that may have been taken. Raise Rejected where that cannot be told."""
        if not isinstance(self._adapter, Lookup):
            raise Rejected("this platform does not tell what it took", code="no_answer")
        return await self._within_time(self._adapter.lookup(part))

    def _as_file_or_text(self, row: OutboxRow, file: OutboundFile) -> OutboxRow:
        """A file goes out as such where this channel takes it, and never inline; else its text."""
        takes_it = isinstance(self._adapter, Uploader)
        if takes_it and file.size_bytes <= self._adapter.limits.max_file_bytes:
            return replace(row, is_inline=False)
        log.warning("file_not_taken", channel=row.channel, outbox_id=row.id)
        return replace(row, file=None)

    async def _post(self, part: OutboundPart) -> MessageRef:
        """Send a part; a file that is gone or refused becomes the text that says so."""
        if part.file is not None and isinstance(self._adapter, Uploader):
            try:
                data = await blobs.fetch(self._store, part.file.blob)
            except StoreUnavailable as error:
                raise NotSent(str(error)) from error
            if data is not None:
                extra_s = len(data) / UPLOAD_BYTES_PER_S
                try:
                    return await self._within_time(self._adapter.upload(part, data), extra_s)
                except Rejected as error:
                    log.warning("file_refused", channel=part.channel, error=str(error))
        return await self._within_time(self._adapter.send(replace(part, file=None)))

    def _give_back_rest(
        self, tx: Transaction, row: OutboxRow, number: int, ref: MessageRef
    ) -> OutboxRow:
        """A response takes one part; the rest waits for another request, or goes another way."""
        now_ms = self._clock.now_ms()
        row = outbox.part_sent(tx, row, self._holder, number, ref, now_ms)
        return outbox.put_back(tx, row, self._holder, next_try_ms=now_ms, surely_not_sent=None)

    def _record_sent(
        self,
        tx: Transaction,
        row: OutboxRow,
        number: int,
        ref: MessageRef,
        next_text: str | None,
        *,
        is_end: bool,
    ) -> OutboxRow:
        """One commit for what was sent and for what is about to be."""
        now_ms = self._clock.now_ms()
        row = outbox.part_sent(tx, row, self._holder, number, ref, now_ms)
        if next_text is not None:
            row = outbox.begin_part(tx, row, self._holder, number + 1, next_text, now_ms=now_ms)
        if is_end:
            row = outbox.settle(tx, row, self._holder, "sent", now_ms)
        return row

    async def _edit(
        self, row: OutboxRow, number: int, text: str, progress: str, shown: Shown
    ) -> None:
        """Make a sent part show `text`, at the pace that the platform allows.

        After a takeover nobody knows what line of progress the newest part shows: it is replaced.
        """
        if not isinstance(self._adapter, Editor):
            return
        if shown.edits_refused and row.state == "streaming":
            return  # once more at its end, for then the whole text must stand there
        part = row.parts[number]
        assumed = (part.sent_text, "" if number != max(row.parts) else "?")
        is_shown = shown.parts.get(number, assumed) == (text, progress)
        if (is_shown and not self._must_end(row, number, shown)) or part.ref is None:
            return
        wait_s = shown.edited_at + self._adapter.limits.edit_interval_s - self._clock.monotonic()
        if wait_s > 0:
            if row.state == "streaming":
                return  # the next look at the draft comes soon, and brings more
            await self._clock.sleep(wait_s)
        self.permit.check()
        outgoing = self._part(row, number, text, progress, max(row.parts) + 1)
        try:
            await self._within_time(self._adapter.edit(MessageRef(id=part.ref), outgoing))
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error  # an edit may be repeated
        except Rejected as error:
            log.warning("edit_refused", channel=row.channel, outbox_id=row.id, error=str(error))
            if row.revision:
                return  # it was whole before, and what became of it is told elsewhere too
            if row.state != "streaming" and text != LEFTOVER:
                raise  # people see a part of the answer: that does not count as sent
            shown.edits_refused = True
            return
        self._note_shown(shown, number, outgoing)
        await self._write(
            partial(outbox.part_edited, row=row, holder=self._holder, part_no=number, text=text)
        )

    def _must_end(self, row: OutboxRow, number: int, shown: Shown) -> bool:
        """Whether the chat may show a part as unfinished though nothing of it will change."""
        if row.state == "streaming" or not self._adapter.limits.ends_growth:
            return False
        is_unknown = number not in shown.parts and row.parts[number].edits > 0
        return is_unknown or number in shown.growing

    def _note_shown(self, shown: Shown, number: int, part: OutboundPart) -> None:
        shown.parts[number] = (part.text, part.progress)
        shown.edited_at = self._clock.monotonic()
        if part.is_final:
            shown.growing.discard(number)
        else:
            shown.growing.add(number)

    # -- ends --------------------------------------------------------------------------------------

    async def _question(self, row: OutboxRow, number: int, detail: str) -> OutboxRow:
        """The outcome of a send is unknown: look it up soon, or end as unknown where one cannot."""
        log.warning("reply_unknown", channel=row.channel, outbox_id=row.id, error=detail)
        await self._write(
            partial(outbox.part_unknown, row=row, holder=self._holder, part_no=number)
        )
        can_tell = self._adapter.limits.has_idempotency_keys or isinstance(self._adapter, Lookup)
        if can_tell:
            return await self._retry_later(row, None, None)
        return await self._settle(row, "unknown", "no_answer")

    async def _retry_later(
        self, row: OutboxRow, not_sent: int | None, retry_after_s: float | None
    ) -> OutboxRow:
        now_ms = self._clock.now_ms()
        if now_ms - row.created_ms > GIVE_UP_AFTER_MS:
            is_there = row.revision > 0 and all(part.state == "sent" for part in row.parts.values())
            return await self._settle(row, "sent" if is_there and row.parts else "dead", "too_old")
        backoff_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(row.tries, 10))
        wait_s = retry_after_s or backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        log.info("reply_retried_later", channel=row.channel, outbox_id=row.id, wait_s=wait_s)
        return await self._write(
            partial(
                outbox.put_back,
                row=row,
                holder=self._holder,
                next_try_ms=now_ms + round(wait_s * 1000),
                surely_not_sent=not_sent,
            )
        )

    async def _settle(self, row: OutboxRow, state: str, reason: str) -> OutboxRow:
        return await self._write(
            partial(
                outbox.settle,
                row=row,
                holder=self._holder,
                state=state,
                now_ms=self._clock.now_ms(),
                reason=reason,
            )
        )

    async def _within_time(self, call: Awaitable[T], extra_s: float = 0.0) -> T:
        """Adapters have time-outs of their own; this holds for what they forget."""
        try:
            async with asyncio.timeout(self._adapter.limits.send_timeout_s + extra_s):
                return await call
        except TimeoutError as error:
            raise OutcomeUnknown("no outcome in time") from error

    async def _write(self, unit: Unit[T]) -> T:
        """Record what happened, however long the store needs: it did happen."""
        while True:
            try:
                return await self._store.write(unit)
            except StoreUnavailable as error:
                log.warning("delivery_not_recorded", error=str(error))
                if not self._heartbeat.is_fresh:
                    raise LeaseLost from error
                await self._clock.sleep(STORE_RETRY_S)

    def _part(
        self, row: OutboxRow, number: int, text: str, progress: str, part_count: int
    ) -> OutboundPart:
        return OutboundPart(
            channel=row.channel,
            route=row.route,
            key=outbox.part_key(row.id, number, row.created_ms),
            part_no=number,
            text=text,
            progress=progress,
            is_final=row.state != "streaming",
            is_inline=row.is_inline,
            part_count=part_count,
            choices=row.choices if number + 1 == part_count else (),
            file=row.file,
            is_revision=row.revision > 0,
        )
