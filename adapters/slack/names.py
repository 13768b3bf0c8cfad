"""Names by Slack id: remembered for some hours, asked for when a message needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace

import structlog

from adapters.payload import Json, object_of, objects_of, text_of
from adapters.recent import Recent
from adapters.slack.api import SlackApi
from adapters.slack.facts import Facts, Identity
from adapters.slack.files import is_undescribed
from adapters.slack.inbound import parse_event
from adapters.slack.outbound import People
from clawbot.errors import ClawbotError, SendError
from clawbot.messages import Ignored, InboundMessage
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_KEPT_S = 6 * 3600.0
_FAILURE_KEPT_S = 60.0
_MAX_NAMES = 10_000
_MAX_LOOKUPS = 50  # a message that names more people is a list, not a conversation
_AT_ONCE = 4
_KINDS = ("user", "channel", "group")


class NameCache(Mapping[str, str]):
    """Names with an age limit; an empty name says that there is none to be had for now."""

    def __init__(self, clock: Clock, *, max_names: int = _MAX_NAMES) -> None:
        self._clock = clock
        self._max_names = max_names
        self._names: dict[str, tuple[str, float]] = {}
        self.changes = 0

    def __getitem__(self, key: str) -> str:
        name, until = self._names[key]
        if until <= self._clock.monotonic():
            del self._names[key]
            raise KeyError(key)
        return name

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def remember(self, key: str, name: str) -> None:
        """Keep a name, or for a short while that there is none; the oldest makes room."""
        self._names.pop(key, None)
        while len(self._names) >= self._max_names:
            del self._names[next(iter(self._names))]
        self.changes += 1
        kept_s = _KEPT_S if name else _FAILURE_KEPT_S
        self._names[key] = (name, self._clock.monotonic() + kept_s)


class _Misses(Mapping[str, str]):
    """Notes which names a reader asked for in vain."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.missed: dict[str, None] = {}

    def __getitem__(self, key: str) -> str:
        try:
            return self._names[key]
        except KeyError:
            self.missed[key] = None
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Directory:
    """What is known of people, channels and user groups of one account."""

    def __init__(self, channel: str, api: SlackApi, clock: Clock) -> None:
        self._channel = channel
        self._api = api
        self._names = {kind: NameCache(clock) for kind in _KINDS}
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self.viewing: Recent[str] = Recent(clock, kept_s=_KEPT_S, at_most=_MAX_NAMES)
        self._people: tuple[int, People] = (0, People())
        self.identity = Identity()

    @property
    def people(self) -> People:
        """Whom an answer may mention: people whose names we have read, but not ourselves."""
        users = self._names["user"]
        if self._people[0] != users.changes:
            named = {key: users.get(key, "") for key in users}
            others = {key: name for key, name in named.items() if key not in self.identity.user_ids}
            self._people = (users.changes, People.of(others))
        return self._people[1]

    @property
    def facts(self) -> Facts:
        """For the parser; the names in it are a live view."""
        return self._facts(self._names)

    async def complete(self, payload: Json) -> InboundMessage:
        """Parse a payload after loading the names and files that it lacks.

        What cannot be loaded reads as its id. Raises ClawbotError if it is no message at all.
        """
        payload = await self._with_files(payload)
        misses = {kind: _Misses(names) for kind, names in self._names.items()}
        parse_event(payload, self._facts(misses))
        questions = [(kind, key) for kind in _KINDS for key in misses[kind].missed if key]
        tasks = [self._ask(question) for question in questions[:_MAX_LOOKUPS]]
        if tasks:
            await asyncio.wait(tasks)
        message = parse_event(payload, self.facts)
        if isinstance(message, Ignored):
            raise ClawbotError(f"channel {self._channel}: no message any more: {message.reason}")
        return replace(message, is_incomplete=False)

    async def close(self) -> None:
        """Give up open questions."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _facts(self, names: Mapping[str, Mapping[str, str]]) -> Facts:
        users, channels, groups = (names[kind] for kind in _KINDS)
        return Facts(
            channel=self._channel,
            identity=self.identity,
            users=users,
            channels=channels,
            groups=groups,
            viewing=self.viewing,
        )

    def _ask(self, question: tuple[str, str]) -> asyncio.Task[None]:
        """The one task that answers this question, however many messages wait for it."""
        task = self._asking.get(question)
        if task is None:
            task = asyncio.create_task(self._answer(*question), name=f"slack {question[0]} name")
            self._asking[question] = task
            task.add_done_callback(lambda _: self._asking.pop(question, None))
        return task

    async def _answer(self, kind: str, key: str) -> None:
        try:
            async with self._gate:
                name = await self._ask_slack(kind, key)
        except SendError as error:
            log.info(
                "slack_name_unknown", channel=self._channel, kind=kind, id=key, error=str(error)
            )
            name = ""
        self._names[kind].remember(key, name)

    async def _ask_slack(self, kind: str, key: str) -> str:
        if kind == "user":
            return await self._api.user_name(key)
        if kind == "channel":
            return await self._api.channel_name(key)
        handles = await self._api.group_names()
        for group, handle in handles.items():
            self._names["group"].remember(group, handle)
        return handles.get(key, "")

    async def _with_files(self, payload: Json) -> Json:
        """The payload with the files that Slack only hinted at filled in, where it tells."""
        event = object_of(payload.get("event"))
        files = objects_of(event.get("files"))
        if not any(map(is_undescribed, files)):
            return payload
        filled = [await self._filled(file) for file in files[:_MAX_LOOKUPS]]
        return {**payload, "event": {**event, "files": filled}}

    async def _filled(self, file: Json) -> Json:
        if not is_undescribed(file):
            return file
        try:
            return await self._api.file(text_of(file.get("id"))) or file
        except SendError as error:
            log.info("slack_file_unknown", channel=self._channel, error=str(error))
            return file
