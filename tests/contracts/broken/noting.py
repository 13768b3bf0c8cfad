"""Faults of `notes`: counts that go wrong between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clawbot.ports import Transaction
from clawbot.store import notes
from tests.contracts.broken.breaking import Break, afterwards, changing, wrapping


def see_nothing(original: Callable[..., Any], tx: Transaction, *args: Any, **kw: Any) -> Any:
    """Begin anew each time."""
    maker = kw.pop("change")
    return original(tx, *args, change=lambda _text: maker(None), **kw)


def keep_all(original: Callable[..., Any], tx: Transaction, *args: Any, **kw: Any) -> Any:
    """Never drop a note."""
    maker = kw.pop("change")
    return original(tx, *args, change=lambda text: maker(text) or text, **kw)


NOTE_BREAKS = (
    Break(
        clause="test_two_processes_count_on_in_one_note",
        fault="each begins anew",
        apply=wrapping(notes, "change", see_nothing),
    ),
    Break(
        clause="test_a_note_outlives_its_process",
        fault="it is gone with it",
        apply=afterwards(notes, "change", "DELETE FROM channel_notes"),
    ),
    Break(
        clause="test_a_note_ends_with_its_time",
        fault="it stays for ever",
        apply=afterwards(notes, "change", "UPDATE channel_notes SET until_ms = 9000000000000000"),
    ),
    Break(
        clause="test_a_note_can_be_dropped",
        fault="it stays",
        apply=wrapping(notes, "change", keep_all),
    ),
    Break(
        clause="test_a_note_is_its_channels_own",
        fault="all channels share it",
        apply=changing(notes, "change", channel="all"),
    ),
)
