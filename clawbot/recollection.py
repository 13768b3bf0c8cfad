"""What a session's working memory has to go on: its newest history, its summary, what it learned.

Plain values between the store, which keeps them, and `agent.memory`, which decides by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clawbot.history import Entry

FOR_ANY_WINDOW = 1 << 62
"""`Summary.for_tokens` of a summary that a person asked for: it counts for every model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far back to load a history, at least: whichever bound is met first ends it.

    messages: entries before those of the current turn; 0 or less = any number.
    """

    messages: int
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is remembered of a history up to and with the entry `through_seq`.

    for_tokens: the room for history that made it necessary; a model with far more room is given
        the history itself.
    """

    text: str
    through_seq: int
    for_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """What a session has learned with one model; for another model it begins anew.

    factor: the tokens that the provider reports by those that we count; None = never compared.
    window_tokens: set where the window proved to be smaller than it is said to be.
    kept_from: the oldest entry that is still sent, once some are not: the beginning of the requests
        stays the same for many turns, for the sake of prompt caches.
    budget: the newest request by part, in the model's tokens; for people alone.
    """

    model: str
    factor: float | None = None
    window_tokens: int | None = None
    kept_from: int = 0
    budget: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """What a turn begins with.

    entries: oldest first, the current turn's all there. wants_summary: whether a person has asked
        for a summary that is not written yet.
    """

    entries: tuple[Entry, ...]
    state: MemoryState | None = None
    summary: Summary | None = None
    wants_summary: bool = False
