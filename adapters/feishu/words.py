"""The words of a Feishu message: placeholders of mentions read as names, own mentions cut.

In a text stand placeholders (`@_user_1`), in the message's `mentions` what they mean. Who is meant
is decided by id alone: people may carry the bot's name. Everything else is literal text: Feishu
escapes nothing, so nothing is unescaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from adapters.feishu.facts import Facts
from adapters.payload import Json, object_of, objects_of, text_of

_ALL_KEY = "@_all"
_ALL_IDS = frozenset({"all", "@_all", "@all"})
_ALL_NAME = "all"
_PLACEHOLDER = r"@_user_\d+|@_all(?!\w)"
_AT_TAG = re.compile(r"<at\b([^<>]*)>(.*?)</at>", re.DOTALL)
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*["']?([^"'\s>]*)""")
_BLANK = " \t\u00a0\u200b\u2060\ufeff\u3000"
_ADDRESSING = re.compile(rf"[{_BLANK}]*(?:[,，、：]|:(?![\w+-]+:))?[{_BLANK}]*")
_TIGHT = frozenset(_BLANK + "\n.,;:!?，。；：！？、)）]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """Who a placeholder stands for."""

    id: str
    name: str = ""

    @property
    def is_all(self) -> bool:
        """Whether everybody in the chat is meant."""
        return self.id in _ALL_IDS


class OwnMention(str):
    """The bot's own @name, where it may have to be cut."""

    __slots__ = ()


def trim(text: str) -> str:
    """Without white space and zero-width characters at both ends."""
    return text.strip().strip(_BLANK + "\n\r\f\v")


def read_mentions(message: Json) -> dict[str, Mention]:
    """The mentions of a message by their placeholder; ids come as an object or as a text."""
    found: dict[str, Mention] = {}
    for each in objects_of(message.get("mentions")):
        key = text_of(each.get("key"))
        person_id = first_id(each.get("id"))
        if key:
            person_id = _ALL_KEY if key == _ALL_KEY else person_id
            found[key] = Mention(id=person_id, name=text_of(each.get("name")))
    return found


def first_id(ids: object) -> str:
    """The id by which we know a person: open_id, else user_id, else union_id."""
    if isinstance(ids, str):
        return ids
    known = object_of(ids)
    return next((found for key in _IDS if (found := text_of(known.get(key)))), "")


_IDS = ("open_id", "user_id", "union_id")


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads the texts of one message and notes whom they address and which names they lack."""

    facts: Facts
    mentions: Mapping[str, Mention] = field(default_factory=dict)
    mentions_bot: bool = False
    mentions_others: bool = False
    is_complete: bool = True

    def plain(self, text: str) -> list[str]:
        """Literal text with placeholders."""
        pieces: list[str] = []
        end = 0
        for match in self._placeholders().finditer(text):
            pieces += [text[end : match.start()], self._placeholder(match[0])]
            end = match.end()
        return [*pieces, text[end:]]

    def tagged(self, text: str) -> list[str]:
        """Text in which mentions may also stand as `<at user_id="…">name</at>`."""
        pieces: list[str] = []
        end = 0
        for match in _AT_TAG.finditer(text):
            attributes = dict(_ATTRIBUTE.findall(match[1]))
            person_id = next(
                (attributes[key] for key in ("user_id", "open_id", "id") if attributes.get(key)), ""
            )
            pieces += self.plain(text[end : match.start()])
            pieces.append(self.at(person_id, match[2]))
            end = match.end()
        return pieces + self.plain(text[end:])

    def at(self, who: str, label: str = "") -> str:
        """A mention node: `who` is a placeholder or an id."""
        if who in self.mentions:
            return self._mention(self.mentions[who], label, shown=who)
        return self._mention(Mention(id="" if who.startswith("@_user_") else who), label, shown=who)

    def name(self, person_id: str, label: str = "") -> str:
        """The name of a person, "" while it is unknown."""
        if self.facts.identity.is_us(person_id):
            return self.facts.identity.name
        label = label.lstrip("@")
        if label or not person_id:
            return label
        known = self.facts.users.get(person_id)
        if known is None:
            self.is_complete = False
        return known or ""

    def _placeholders(self) -> re.Pattern[str]:
        # The longest first, and no digit after it: @_user_1 is the head of @_user_10.
        keys = sorted(self.mentions, key=len, reverse=True)
        exact = [re.escape(key) + (r"(?!\d)" if key[-1:].isdigit() else "") for key in keys]
        return re.compile("|".join([*exact, _PLACEHOLDER]))

    def _placeholder(self, key: str) -> str:
        if key in self.mentions:
            return self._mention(self.mentions[key], "", shown=key)
        if key == _ALL_KEY:
            return self._mention(Mention(id=key), "", shown=key)
        return key  # nobody says who is meant

    def _mention(self, mention: Mention, label: str, *, shown: str) -> str:
        if mention.is_all:
            self.mentions_bot = self.mentions_bot or self.facts.answers_all
            return f"@{(mention.name or label).lstrip('@') or _ALL_NAME}"
        if mention.id and mention.id == self.facts.identity.open_id:
            self.mentions_bot = True
            return OwnMention(f"@{self.facts.identity.name or mention.name}")
        self.mentions_others = True
        name = self.name(mention.id, mention.name or label) or mention.id
        return f"@{name}" if name else shown


def join(pieces: Iterable[str]) -> str:
    """The text without own mentions; no double space and no `: ` is left where one stood."""
    text = ""
    is_cut = False
    for piece in pieces:
        if isinstance(piece, OwnMention):
            is_cut = True
            continue
        if is_cut and piece:
            piece, is_cut = _after_cut(text, piece), False  # noqa: PLW2901  # the rest of it
            if piece[:1] in _TIGHT:
                text = text.rstrip(_BLANK)
        text += piece
    return text.rstrip(_BLANK) if is_cut else text


def _after_cut(before: str, piece: str) -> str:
    """What follows a cut mention: at the start of a line the address's comma goes with it."""
    head = before.rstrip(_BLANK)
    return _ADDRESSING.sub("", piece, count=1) if not head or head[-1] == "\n" else piece
