"""Chooses what of a session's history goes into one model request; pure.

The turn that runs is pinned, and what people said in it and its newest unit always stand. If it
fits, older units are added from the newest back while both limits hold (messages, tokens). If not,
it is made smaller in tiers, each of which is no larger than the one before it: no earlier thinking,
older results as one line, newer results by beginning and end, then long arguments and messages,
then only what is pinned; in the end there is nothing that could be sent, and `TooLarge` is raised.

Units are never cut apart, and requests begin with the user's side. A history that was cut once is
kept from there on (`kept_from`) until it is full again, and a cut leaves room for what follows: so
the beginning of the requests, which prompt caches compare, stays the same for many of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clawbot.agent.masks import (
    Shortener,
    cap_old,
    cap_results,
    cap_words,
    is_thought,
    mask_results,
    pinned_only,
    without_thinking,
)
from clawbot.agent.steps import Step, group
from clawbot.agent.weights import Unit, Weights, flat
from clawbot.errors import ClawbotError
from clawbot.history import Entry, EntryKind

RECENT_STEPS = 3
"""Steps of the running turn whose results are not masked before all else is tried."""

COMPACT_AT = 0.8
"""The part of the room from which on the oldest units shall be summarised."""

_NOT_HISTORY = frozenset({EntryKind.SEED, EntryKind.SUMMARY})
_LARGE_RESULT = 200
_CAPS = (4, 8, 16, 32)  # a text may take this part of the room
_LAST_CAPS = (64, 128)


class TooLarge(ClawbotError):
    """Not even the newest message and step fit into the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much history a request may hold.

    tokens: counted ones. surely: as long as the history has no more bytes than this it fits, by
    whatever vocabulary. messages: entries, 0 or less = any number; it yields to the current turn.
    kept_from: older entries are not sent any more. turn_id: of the turn that runs.
    """

    turn_id: str
    tokens: int
    surely: int
    messages: int
    kept_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What of a history goes into a request.

    tokens: its weight, counted if `is_counted`, else estimated. turn_tokens: the part of it of the
    running turn. tier: 0 = the running turn is whole. is_whole: nothing at all is left out or
    changed. saves: texts to be saved, by their paths. fold_through: up to which entry the history
    should be summarised by now, 0 = not.
    """

    entries: tuple[Entry, ...]
    tokens: int
    turn_tokens: int
    is_counted: bool
    tier: int
    is_whole: bool
    kept_from: int
    saves: dict[str, str]
    fold_through: int


def fit(entries: Iterable[Entry], room: Room, weights: Weights) -> Fitted:
    """Choose; see the module. Raise TooLarge. Blocks as long as counting takes."""
    units = group(entry for entry in entries if entry.kind not in _NOT_HISTORY)
    if not units:
        raise ValueError("a request needs something that was said: the history is empty")
    first = next(
        (number for number, unit in enumerate(units) if unit.turn_id == room.turn_id),
        len(units) - 1,
    )
    current = units[first:]
    every = [unit for unit in units[:first] if _seq(unit) >= room.kept_from or not _seq(unit)]
    places = _places(room, current)
    older = every if _size(every) <= places else _newest(every, places - places // 4)
    older = _from_user(older)
    if weights.bound([*older, *current]) <= room.surely:
        tokens, turn_tokens = weights.estimate([*older, *current]), weights.estimate(current)
        is_counted, tier, saves = False, 0, {}
        shown = current
    else:
        is_counted = True
        shortener = Shortener(weights)
        tier, shown = _fitting(current, room.tokens, weights, shortener)
        turn_tokens = weights.units(shown)
        older = _older(older, room.tokens - turn_tokens, room.tokens, weights, shortener)
        tokens = turn_tokens + weights.units(older)
        saves = shortener.saves
    chosen = tuple(entry for unit in [*older, *shown] for entry in flat(unit))
    was_cut = _told(older) < _told(_from_user(every))
    return Fitted(
        entries=chosen,
        tokens=tokens,
        turn_tokens=turn_tokens,
        is_counted=is_counted,
        tier=tier,
        is_whole=not (len(older) < len(_from_user(every)) or tier or room.kept_from or saves),
        kept_from=_seq([*older, *current][0]) if was_cut else room.kept_from,
        saves=_mentioned(saves, chosen),
        fold_through=_fold(
            every,
            room,
            turn_tokens,
            weights,
            # What surely fits is far from the line, whatever its estimate says.
            is_near=was_cut or (is_counted and tokens > COMPACT_AT * room.tokens),
        ),
    )


def _places(room: Room, current: Sequence[Unit]) -> int:
    """How many older entries there may be."""
    return max(0, room.messages - _size(current)) if room.messages > 0 else 1 << 62


def _older(
    older: list[Unit], left: int, whole: int, weights: Weights, shortener: Shortener
) -> list[Unit]:
    """Units before the current turn in `left` tokens of `whole`."""
    if weights.units(older) <= left:
        return older
    smaller = [cap_old(unit, shortener, whole // 8) for unit in older if not is_thought(unit)]
    if weights.units(smaller) <= left:
        return smaller
    return _from_user(_newest(smaller, None, left * 3 // 4, weights))


def _newest(
    units: Sequence[Unit],
    places: int | None,
    tokens: int | None = None,
    weights: Weights | None = None,
) -> list[Unit]:
    """The newest units within a number of entries and of tokens."""
    start = len(units)
    while start > 0:
        unit = units[start - 1]
        if places is not None:
            places -= _size([unit])
        if tokens is not None and weights is not None:
            tokens -= weights.unit(unit)
        if (places or 0) < 0 or (tokens or 0) < 0:
            break
        start -= 1
    return list(units[start:])


def _from_user(units: Sequence[Unit]) -> list[Unit]:
    """A conversation begins with the user's side, not in the middle of a turn."""
    said = (isinstance(unit, Entry) and not unit.is_thought for unit in units)
    start = next((number for number, is_said in enumerate(said) if is_said), len(units))
    return list(units[start:])


def _told(units: Sequence[Unit]) -> int:
    """How many units there are, thoughts left out."""
    return sum(not is_thought(unit) for unit in units)


# -- the turn that runs ----------------------------------------------------------------------------


def _fitting(
    current: list[Unit], tokens: int, weights: Weights, shortener: Shortener
) -> tuple[int, list[Unit]]:
    """The first tier that fits, with its number."""
    least = weights.units(current)
    for tier, form in enumerate(_tiers(current, tokens, shortener)):
        found = weights.units(form)
        if found <= tokens:
            return tier, form
        least = min(least, found)
    raise TooLarge(
        f"the newest message and step come to {least:,} tokens at their smallest; {tokens:,} fit"
    )


def _tiers(current: list[Unit], tokens: int, shortener: Shortener) -> Iterator[list[Unit]]:
    """Forms of a turn, each no larger than the one before."""
    form = current
    yield form
    form = [*(without_thinking(unit) for unit in form[:-1] if not is_thought(unit)), form[-1]]
    yield form
    recent = _recent(form)
    for above in (_LARGE_RESULT, 0):
        form = [
            unit if number in recent else mask_results(unit, shortener, above)
            for number, unit in enumerate(form)
        ]
        yield form
    for part in _CAPS:
        form = [cap_results(unit, shortener, tokens // part) for unit in form]
        yield form
    for part in _CAPS:
        form = [cap_words(unit, shortener, tokens // part) for unit in form]
        yield form
    form = [without_thinking(unit) for unit in pinned_only(form) if not is_thought(unit)]
    yield form
    form = [mask_results(unit, shortener, 0) for unit in form]
    yield form
    for part in _LAST_CAPS:
        form = [cap_words(unit, shortener, tokens // part) for unit in form]
        yield form


def _recent(units: Sequence[Unit]) -> set[int]:
    steps = [number for number, unit in enumerate(units) if isinstance(unit, Step)]
    return set(steps[-RECENT_STEPS:])


# -- what shall be summarised ----------------------------------------------------------------------


def _fold(
    every: list[Unit],
    room: Room,
    turn_tokens: int,
    weights: Weights,
    *,
    is_near: bool,
) -> int:
    """Up to which entry to summarise, so that half of the room is free again; 0 = nothing yet."""
    taken = room.messages if room.messages > 0 else 1 << 62
    if not every or not (is_near or _size(every) > COMPACT_AT * taken):
        return 0
    kept = _newest(every, taken // 2, max(0, room.tokens - turn_tokens) // 2, weights)
    kept = _from_user(kept)
    folded = every[: len(every) - len(kept)]
    return max(entry.seq for entry in flat(folded[-1])) if folded else 0


def _mentioned(saves: dict[str, str], entries: Sequence[Entry]) -> dict[str, str]:
    """The texts whose paths stand in the request."""
    return {
        path: text
        for path, text in saves.items()
        if any(path in entry.text or path in entry.arguments for entry in entries)
    }


def _seq(unit: Unit) -> int:
    return flat(unit)[0].seq


def _size(units: Sequence[Unit]) -> int:
    return sum(len(flat(unit)) for unit in units)
