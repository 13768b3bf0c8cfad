"""Taking a message in: gate, route and commit in one transaction; then it may be acknowledged.

This is the first half of a message's path. It ends in an inbox row (queued for a worker, received
for enrichment, done for a command, context, refused) or in none, and never in an acknowledged
message that was not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import RowMapping

from clawbot import refusals
from clawbot.access import GateFacts, Verdict, judge
from clawbot.commands.execute import execute
from clawbot.commands.grammar import Command, parse
from clawbot.commands.tasks import Standing
from clawbot.config import ChannelPolicy, Models
from clawbot.messages import Accepted, ChatType, InboundMessage, cleaned
from clawbot.overview import overview
from clawbot.ports import Clock, Store, Transaction
from clawbot.queueing import USUAL_RULES, QueueRules
from clawbot.rates import Over
from clawbot.router import Route, route
from clawbot.session_key import SessionKey
from clawbot.store import events, inbox, inline, outbox, overheard, places, sessions, stops, waiting
from clawbot.store.directory import StoredDirectory

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRules:
    """What the intake must know of a channel. Times in ms, zone: people's, file_bytes: of one sent.

    can_edit: whether the adapter can change sent messages, so that replies may grow. can_enrich:
    whether it completes messages; without, an incomplete one is taken as it is.
    can_download: whether it can load the files of messages. over_rate: see `clawbot.shared_rates`.
    can_read_threads: whether it can tell what stood in a thread before we were called into it.
    """

    policy: ChannelPolicy
    models: Models
    can_edit: bool
    can_enrich: bool
    context_rows: int
    context_age_ms: int
    enrich_ms: int
    late_after_ms: int
    is_owner: Callable[[str], bool] = lambda _user_id: False
    over_rate: Callable[[Transaction, InboundMessage, int], Over | None] = lambda *_: None
    can_read_threads: bool = False
    can_download: bool = False
    zone: str = "UTC"
    file_bytes: int | None = None


class Intake:
    """Takes in the messages of one channel, by `rules` as they are then. It keeps nothing else."""

    def __init__(
        self, store: Store, clock: Clock, rules: ChannelRules, process_id: str = ""
    ) -> None:
        self._store = store
        self._clock = clock
        self.rules = rules
        self._process_id = process_id

    async def accept(self, message: InboundMessage) -> Accepted:
        """Gate, route and commit; see `ports.Accept`. Raise StoreUnavailable."""
        unit = partial(self._take, message=cleaned(message), now_ms=self._clock.now_ms())
        try:
            accepted = await self._store.write(unit)
        except inbox.StoredMeanwhile:
            accepted = await self._store.write(unit)
        log.info(
            "message_accepted",
            channel=message.channel,
            chat_type=message.chat_type.value,
            decision=accepted.decision,
            reason=accepted.reason,
            duplicate=accepted.is_duplicate,
            session=accepted.session_key,
            inbox_id=accepted.inbox_id,
        )
        return accepted

    async def overview(self, channel: str, chat_id: str, person: str) -> str | None:
        """See `ports.Overview`."""
        return await self._store.read(
            partial(
                overview,
                channel=channel,
                policy=self.rules.policy,
                models=self.rules.models,
                chat_id=chat_id,
                person=person,
                now_ms=self._clock.now_ms(),
            )
        )

    def _take(self, tx: Transaction, message: InboundMessage, now_ms: int) -> Accepted:
        accepted = admit(tx, message, self.rules, now_ms)
        until_ms, row_id = message.inline_until_ms, accepted.inbox_id
        if until_ms is None:
            return accepted
        held = row_id is not None and inline.hold(
            tx, row_id, self._process_id, until_ms, now_ms, is_again=accepted.is_duplicate
        )
        return replace(accepted, may_be_answered=held)


def admit(tx: Transaction, message: InboundMessage, rules: ChannelRules, now_ms: int) -> Accepted:
    """The unit behind `Intake.accept`. A copy of a mere context row may be addressed to us."""
    earlier = inbox.known(tx, message)
    if earlier is not None and earlier["state"] != "context":
        return _duplicate(earlier)
    directory = StoredDirectory(tx, message, now_ms)
    way = route(
        message, rules.policy.scope, directory, can_edit=rules.can_edit, file_bytes=rules.file_bytes
    )
    facts = GateFacts(
        follows_thread=_is_ours(tx, message, way, rules, directory),
        bot_run=_bot_run(tx, message, rules),
    )
    verdict = judge(message, rules.policy, facts)
    if verdict.action == "deny":
        return refusals.refuse(tx, message, way, verdict, now_ms)
    if verdict.action == "overhear":
        if earlier is not None:
            return _duplicate(earlier)
        return _overhear(tx, message, rules, verdict, now_ms)
    command = _command(tx, message, way.session)
    if command is not None:
        return _answer_command(tx, message, command, way, rules, now_ms)
    return _queue(tx, message, way, rules, now_ms)


def admit_for_session(
    tx: Transaction,
    message: InboundMessage,
    session: SessionKey,
    models: Models,
    now_ms: int,
    zone: str = "UTC",
) -> Accepted:
    """Take in a message of the web page or the terminal, which name their session themselves."""
    if (earlier := inbox.known(tx, message)) is not None:
        return _duplicate(earlier)
    command = _command(tx, message, session)
    if command is not None:
        done = execute(tx, command, message, session, models=models, now_ms=now_ms, zone=zone)
        if command.name == "new" and command.words:
            words = replace(message, text=command.words)
            return _enqueue(tx, words, None, session, "queued", now_ms)
        numbers = sessions.take_numbers(tx, session, 1, now_ms)
        row_id = inbox.put(
            tx,
            message,
            state="done",
            now_ms=now_ms,
            reason="command",
            session=session,
            seq=numbers.last_seq,
            command=command.name,
        )
        data = {"inbox": row_id, "text": done.text, "asked": message.text}
        events.append(tx, session, numbers.last_seq, numbers.epoch, "notice", data, now_ms)
        return _accepted("command", row_id, session)
    return _enqueue(tx, message, None, session, "queued", now_ms)


def _accepted(decision: str, row_id: int, session: SessionKey) -> Accepted:
    return Accepted(inbox_id=row_id, decision=decision, session_key=str(session))


def _command(tx: Transaction, message: InboundMessage, session: SessionKey) -> Command | None:
    command = parse(message.command_text)
    if command is not None and command.only_if_busy and not stops.is_busy(tx, session):
        return None
    return command


def _is_ours(
    tx: Transaction,
    message: InboundMessage,
    way: Route,
    rules: ChannelRules,
    directory: StoredDirectory,
) -> bool:
    """Whether the message stands in a thread in which we talk already."""
    if message.thread is None:
        return False
    if rules.policy.scope == "thread" and directory.has_session(str(way.session)):
        return True
    return inbox.answers_in(tx, message.channel, message.chat_id, message.thread)


def _duplicate(row: RowMapping) -> Accepted:
    """An event that was taken in before."""
    return Accepted(
        inbox_id=row["id"],
        decision=row["state"],
        reason="duplicate",
        is_duplicate=True,
        session_key=row["session_key"],
    )


def _bot_run(tx: Transaction, message: InboundMessage, rules: ChannelRules) -> int:
    if not message.sender.is_bot or rules.policy.bots == "deny":
        return 0
    return inbox.bot_run(
        tx,
        message.channel,
        message.chat_id,
        message.thread,
        message.sender.id,
        limit=rules.policy.max_bot_turns,
    )


def _overhear(
    tx: Transaction, message: InboundMessage, rules: ChannelRules, verdict: Verdict, now_ms: int
) -> Accepted:
    if not rules.context_rows or not message.text.strip():
        return Accepted(inbox_id=None, decision="ignored", reason=verdict.reason)
    waits = message.is_incomplete and rules.can_enrich
    row_id = inbox.put(
        tx,
        message,
        state="context",
        now_ms=now_ms,
        reason=verdict.reason,
        enrich_by_ms=now_ms + rules.enrich_ms if waits else None,
    )
    if waits:
        inbox.ring_enrichers(tx, message.channel)
    overheard.prune(
        tx,
        message.channel,
        message.chat_id,
        keep=rules.context_rows,
        since_ms=now_ms - rules.context_age_ms,
    )
    return Accepted(inbox_id=row_id, decision="context", reason=verdict.reason)


def _answer_command(
    tx: Transaction,
    message: InboundMessage,
    command: Command,
    way: Route,
    rules: ChannelRules,
    now_ms: int,
) -> Accepted:
    """Carry a command out and answer it, past the lane, in the same transaction."""
    done = execute(
        tx,
        command,
        message,
        way.session,
        models=rules.models,
        now_ms=now_ms,
        zone=rules.zone,
        standing=Standing(
            place=way.place,
            base=way.base,
            active=way.session,
            is_owner=rules.is_owner(message.sender.id),
            like=message.text,
            now_ms=now_ms,
            route=way.reply,
        ),
    )
    if command.name == "new" and command.words:
        return _queue(tx, replace(message, text=command.words), way, rules, now_ms)
    if rules.policy.queue.debounce_ms:
        waiting.hurry(tx, way.session)
    row_id = inbox.put(
        tx,
        message,
        state="done",
        now_ms=now_ms,
        reason="command",
        session=way.session,
        seq=done.seq,
        route=way.reply,
        place_thread=way.place.thread,
        command=command.name,
    )
    outbox.add(
        tx,
        channel=message.channel,
        route=way.reply,
        state="pending",
        text=done.text,
        now_ms=now_ms,
        session_key=str(way.session),
        inbox_id=row_id,
        skips_lane=True,
        choices=done.choices,
    )
    accepted = _accepted("command", row_id, way.session)
    return replace(accepted, answer=done.text, is_settled=done.is_settled)


def _queue(
    tx: Transaction, message: InboundMessage, way: Route, rules: ChannelRules, now_ms: int
) -> Accepted:
    if (row_id := inline.take_more(tx, message, way.session, now_ms)) is not None:
        return _accepted("more", row_id, way.session)
    if (over := rules.over_rate(tx, message, now_ms)) is not None:
        return refusals.slow_down(tx, message, way, over, now_ms)
    joins = _joins_thread(tx, message, way, rules, now_ms)
    has_files = bool(message.attachments) and rules.can_download
    waits = (message.is_incomplete or joins or has_files) and rules.can_enrich
    age_ms = 0 if message.sent_at_ms is None else now_ms - message.sent_at_ms
    accepted = _enqueue(
        tx,
        message,
        way,
        way.session,
        "received" if waits else "queued",
        now_ms,
        is_late=age_ms > rules.late_after_ms,
        enrich_by_ms=now_ms + rules.enrich_ms if waits else None,
        reason=overheard.JOINS_THREAD if joins else "",
        queue=rules.policy.queue,
    )
    if waits:
        inbox.ring_enrichers(tx, message.channel)
    return accepted


def _joins_thread(
    tx: Transaction, message: InboundMessage, way: Route, rules: ChannelRules, now_ms: int
) -> bool:
    """Whether this begins a session in a thread in which others have talked without us."""
    if message.thread is None or message.chat_type is not ChatType.GROUP:
        return False
    if not rules.can_read_threads or not rules.context_rows or rules.policy.scope != "thread":
        return False
    return not StoredDirectory(tx, message, now_ms).has_session(str(way.session))


def _enqueue(
    tx: Transaction,
    message: InboundMessage,
    way: Route | None,
    session: SessionKey,
    state: str,
    now_ms: int,
    *,
    is_late: bool = False,
    enrich_by_ms: int | None = None,
    reason: str = "",
    queue: QueueRules = USUAL_RULES,
) -> Accepted:
    is_direct = message.chat_type is ChatType.DM
    numbers = sessions.take_numbers(
        tx,
        session,
        1,
        now_ms,
        chat_type="dm" if is_direct else "group",
        wants_turn=state == "queued",
        pool=queue.pool,
    )
    if numbers.is_busy and waiting.count(tx, session) >= queue.limit:
        return refusals.turn_away(tx, message, way, session, numbers, now_ms)
    if numbers.is_busy and queue.debounce_ms:
        if message.attachments:
            waiting.hurry(tx, session)
        else:
            waiting.wait_for_more(tx, session, now_ms + queue.debounce_ms, now_ms)
    if way is not None:
        viewer = places.viewer_of(way.place)
        places.begin_reading(tx, viewer, str(session), numbers.visible_total)
    row_id = inbox.put(
        tx,
        message,
        state=state,
        now_ms=now_ms,
        session=session,
        seq=numbers.last_seq,
        route=None if way is None else way.reply,
        place_thread=None if way is None else way.place.thread,
        is_late=is_late,
        enrich_by_ms=enrich_by_ms,
        reason=reason,
    )
    data = {"inbox": row_id, "text": message.text, "sender": message.sender.name}
    events.append(tx, session, numbers.last_seq, numbers.epoch, "accepted", data, now_ms)
    return _accepted(state, row_id, session)
