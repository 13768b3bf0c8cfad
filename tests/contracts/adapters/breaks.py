"""Adapters that break a clause of the contract each: one method of a real one is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from adapters.slack.adapter import SlackAdapter
from clawbot.errors import NotSent, SendError, StoreUnavailable
from clawbot.messages import (
    Accepted,
    ChannelHealth,
    Ignored,
    InboundMessage,
    MessageRef,
    OutboundPart,
)
from clawbot.ports import Accept

Apply = Callable[[pytest.MonkeyPatch], None]
UP = ChannelHealth(state="up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A fault, and the clause that must notice it. given: arguments of the clause."""

    clause: str
    fault: str
    apply: Apply
    given: Mapping[str, Any] = field(default_factory=dict)


def replacing(name: str, new: object) -> Apply:
    """Replace a method or value of the adapter."""
    return lambda patch: patch.setattr(SlackAdapter, name, new)


def wrapping(name: str, wrap: Callable[..., Any]) -> Apply:
    """Replace a coroutine method by `wrap`, which is given the original first."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = getattr(SlackAdapter, name)

        async def wrapped(self: SlackAdapter, *args: Any, **kwargs: Any) -> Any:
            return await wrap(original, self, *args, **kwargs)

        patch.setattr(SlackAdapter, name, wrapped)

    return apply


def accepting(change: Callable[[Accept, InboundMessage], Awaitable[Accepted]]) -> Apply:
    """Let something else than `accept` take the messages in."""

    async def receive(original: Any, self: SlackAdapter, accept: Accept) -> None:
        async def instead(message: InboundMessage) -> Accepted:
            return await change(accept, message)

        await original(self, instead)

    return wrapping("receive", receive)


def sending(change: Callable[[OutboundPart], OutboundPart]) -> Apply:
    """Send something else than what is to be sent."""

    async def send(original: Any, self: SlackAdapter, part: OutboundPart) -> MessageRef:
        ref: MessageRef = await original(self, change(part))
        return ref

    return wrapping("send", send)


# -- receiving -------------------------------------------------------------------------------------

_QUEUED = Accepted(inbox_id=1, decision="queued")
_LEFT: set[asyncio.Task[Any]] = set()


async def accept_later(accept: Accept, message: InboundMessage) -> Accepted:
    """Acknowledge first, store then."""
    _LEFT.add(asyncio.ensure_future(accept(message)))
    return _QUEUED


async def accept_anyhow(accept: Accept, message: InboundMessage) -> Accepted:
    """Do not look whether it was stored."""
    try:
        return await accept(message)
    except StoreUnavailable:
        return _QUEUED


async def accept_without_command(accept: Accept, message: InboundMessage) -> Accepted:
    """Know of no commands."""
    return await accept(replace(message, command_text=None))


async def accept_nothing(_accept: Accept, _message: InboundMessage) -> Accepted:
    """Be thrown off."""
    return _QUEUED


def _hear_ourselves(patch: pytest.MonkeyPatch) -> None:
    async def receive(original: Any, self: SlackAdapter, accept: Accept) -> None:
        async def instead(message: InboundMessage) -> Accepted:
            heard.append((accept, message))
            return await accept(message)

        await original(self, instead)

    async def send(original: Any, self: SlackAdapter, part: OutboundPart) -> MessageRef:
        accept, message = heard[-1]
        await accept(replace(message, text=part.text, identity=part.key))
        ref: MessageRef = await original(self, part)
        return ref

    heard: list[tuple[Accept, InboundMessage]] = []
    wrapping("receive", receive)(patch)
    wrapping("send", send)(patch)


async def check_nothing(_self: SlackAdapter) -> ChannelHealth:
    """Believe that all is well."""
    return UP


async def leave_something(original: Any, self: SlackAdapter, accept: Accept) -> None:
    """Forget a task."""

    async def forgotten() -> None:
        await asyncio.Event().wait()

    _LEFT.add(asyncio.ensure_future(forgotten()))
    await original(self, accept)


RECEIVING_BREAKS = (
    Break(
        clause="test_a_message_is_acknowledged_once_it_is_stored_and_not_before",
        fault="it is acknowledged first",
        apply=accepting(accept_later),
    ),
    Break(
        clause="test_what_was_not_stored_comes_again_as_the_same_message",
        fault="it is acknowledged all the same",
        apply=accepting(accept_anyhow),
    ),
    Break(
        clause="test_a_message_says_who_said_what_where",
        fault="commands are not found",
        apply=accepting(accept_without_command),
    ),
    Break(
        clause="test_what_was_received_can_be_read_again",
        fault="it is taken for nothing",
        apply=replacing("read_payload", lambda *_: Ignored(reason="unknown")),
    ),
    Break(
        clause="test_our_own_words_are_not_heard",
        fault="they are",
        apply=_hear_ourselves,
    ),
    Break(
        clause="test_what_nobody_understands_disturbs_nobody",
        fault="nothing is heard afterwards",
        apply=accepting(accept_nothing),
    ),
    Break(
        clause="test_who_we_are_is_proved_at_the_start",
        fault="it is believed",
        apply=replacing("check", check_nothing),
    ),
    Break(
        clause="test_health_is_that_of_the_connection",
        fault="it is good before there is one",
        apply=replacing("health", lambda _self: UP),
    ),
    Break(
        clause="test_an_end_leaves_nothing_behind",
        fault="a task goes on",
        apply=wrapping("receive", leave_something),
    ),
)


# -- sending ---------------------------------------------------------------------------------------


async def send_twice(original: Any, self: SlackAdapter, part: OutboundPart) -> MessageRef:
    """Make sure of it."""
    await original(self, part)
    ref: MessageRef = await original(self, part)
    return ref


async def know_no_doubt(original: Any, self: SlackAdapter, part: OutboundPart) -> MessageRef:
    """Take every failure for a message that was not sent."""
    try:
        ref: MessageRef = await original(self, part)
    except SendError as error:
        raise NotSent(str(error)) from error
    return ref


async def find_nothing(_self: SlackAdapter, _part: OutboundPart) -> None:
    """Say that it is surely not there."""


async def edit_by_sending(self: SlackAdapter, _ref: MessageRef, part: OutboundPart) -> None:
    """Show the new text below the old one."""
    await self.send(part)


async def refuse_controls(original: Any, self: SlackAdapter, part: OutboundPart) -> MessageRef:
    """Want clean text."""
    if not part.text.isprintable():
        raise ValueError(part.text)
    ref: MessageRef = await original(self, part)
    return ref


async def fail(*_args: object, **_kwargs: object) -> None:
    """Raise something."""
    raise RuntimeError


def _close_once(patch: pytest.MonkeyPatch) -> None:
    async def close(original: Any, self: SlackAdapter) -> None:
        if self in closed:
            raise RuntimeError
        closed.append(self)
        await original(self)

    closed: list[SlackAdapter] = []
    wrapping("close", close)(patch)


def _promise_files(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(SlackAdapter, "upload", raising=False)
    patch.setattr(SlackAdapter, "limits", replace(SlackAdapter.limits, max_file_bytes=5))


SENDING_BREAKS = (
    Break(
        clause="test_a_part_stands_in_its_chat_once",
        fault="it is sent twice",
        apply=wrapping("send", send_twice),
    ),
    Break(
        clause="test_the_largest_part_is_taken_whole",
        fault="its end is cut off",
        apply=sending(lambda part: replace(part, text=part.text[:-20])),
    ),
    Break(
        clause="test_a_size_grows_with_its_text",
        fault="every text has the same size",
        apply=replacing("measure", lambda _self, _text: 1),
    ),
    *(
        Break(
            clause="test_a_failure_says_whether_it_may_be_there_and_nothing_is_repeated",
            fault=f"{trouble} is taken for not sent",
            apply=wrapping("send", know_no_doubt),
            given={"trouble": trouble},
        )
        for trouble in ("refused", "lost")
    ),
    Break(
        clause="test_in_doubt_a_part_is_found_or_sent_again_and_stands_once",
        fault="it is not found",
        apply=replacing("lookup", find_nothing),
    ),
    Break(
        clause="test_a_part_that_can_be_changed_is_replaced_as_a_whole",
        fault="the new text is sent beside it",
        apply=replacing("edit", edit_by_sending),
    ),
    Break(
        clause="test_a_file_arrives_with_its_name_and_its_bytes",
        fault="files are promised and cannot be sent",
        apply=_promise_files,
    ),
    Break(
        clause="test_choices_never_take_a_text_away",
        fault="the text makes room",
        apply=sending(lambda part: replace(part, text="Choose" if part.choices else part.text)),
    ),
    Break(
        clause="test_a_sign_of_typing_never_raises",
        fault="it does",
        apply=replacing("typing", fail),
    ),
    Break(
        clause="test_what_a_model_may_write_is_sent_all_the_same",
        fault="control characters are refused",
        apply=wrapping("send", refuse_controls),
    ),
    Break(
        clause="test_closing_twice_is_closing",
        fault="the second time fails",
        apply=_close_once,
    ),
)

BREAKS = (*RECEIVING_BREAKS, *SENDING_BREAKS)
