"""Broken amendments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clawbot.messages import Amendment
from clawbot.ports import Transaction
from clawbot.store import amendments
from tests.contracts.broken.breaking import Break, afterwards, replacing, wrapping


def complete_amendment(
    original: Callable[..., bool], tx: Transaction, amendment: Amendment, *args: Any
) -> bool:
    """Take new words as they are, whatever they lack."""
    message = amendment.message
    whole = None if message is None else replace(message, is_incomplete=False)
    return original(tx, replace(amendment, message=whole), *args)


AMENDMENT_BREAKS = (
    Break(
        clause="test_a_waiting_message_is_read_as_it_was_changed",
        fault="the old words are kept",
        apply=afterwards(amendments, "amend", "UPDATE inbox SET text = 'old words'"),
    ),
    Break(
        clause="test_a_withdrawn_message_begins_no_turn_and_holds_none_back",
        fault="later messages are not woken",
        apply=afterwards(amendments, "amend", "UPDATE sessions SET due_ms = NULL"),
    ),
    Break(
        clause="test_a_withdrawn_message_begins_no_turn_and_holds_none_back",
        fault="a withdrawn message is forgotten, so that its copy is answered",
        apply=afterwards(amendments, "amend", "DELETE FROM inbox WHERE reason = 'withdrawn'"),
    ),
    Break(
        clause="test_what_a_turn_has_taken_up_is_not_changed",
        fault="claimed messages are changed too",
        apply=replacing(amendments, "_WAITING", ("received", "queued", "context", "claimed")),
    ),
    Break(
        clause="test_an_overheard_message_is_changed_or_forgotten",
        fault="overheard messages are left",
        apply=replacing(amendments, "_WAITING", ("received", "queued")),
    ),
    Break(
        clause="test_names_of_changed_words_are_loaded_and_those_of_old_ones_left",
        fault="whoever loads the old names keeps the message",
        apply=afterwards(amendments, "amend", "UPDATE inbox SET enrich_holder = 'two'"),
    ),
    Break(
        clause="test_a_changed_message_that_lacks_names_waits_for_them",
        fault="new words are taken as they are",
        apply=wrapping(amendments, "amend", complete_amendment),
    ),
)
