"""Tells a repeated send from a repeated text.

WeCom's duplicate check compares content, not a key: it makes the second attempt at a message
harmless, and would swallow a second message that happens to say the same. Such a one is sent
without the check. Who said what first is a note that all processes of the app share.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from adapters.payload import dump, list_of, parse, text_of
from clawbot.ports import ChangeNote

_MAX_KEYS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Which message said a text first, and which others were tried since, by their keys."""

    first: str
    others: tuple[str, ...] = ()

    def is_new(self, key: str) -> bool:
        """Whether another message said the same, and this one was not tried yet."""
        return key not in {self.first, *self.others}


class Repeats:
    """Which message said what to whom, within the interval of the check."""

    def __init__(self, change: ChangeNote, interval_s: float) -> None:
        self.change = change
        self._interval_s = interval_s

    async def is_checked(self, user_id: str, text: str, key: str) -> bool:
        """Whether the message with this key shall be sent with the check. Raises StoreUnavailable.

        Its first attempt goes without when another message said the same; every later attempt has
        it, for then the message itself may be the earlier one.
        """
        said = hashlib.sha256(f"{user_id}\0{text}".encode("utf-8", "replace")).hexdigest()
        before = await self.change(
            f"said/{said}", lambda known: _text_of(_noted(_read(known, key), key)), self._interval_s
        )
        return not _read(before, key).is_new(key)


def _noted(said: Said, key: str) -> Said:
    return replace(said, others=(*said.others, key)[-_MAX_KEYS:]) if said.is_new(key) else said


def _text_of(said: Said) -> str:
    return dump({"first": said.first, "others": said.others})


def _read(text: str | None, key: str) -> Said:
    """What is known; of a text that nobody said this message is the first."""
    fields = (parse(text) if text else None) or {}
    others = tuple(text_of(each) for each in list_of(fields.get("others")))
    return Said(first=text_of(fields.get("first")) or key, others=others)
