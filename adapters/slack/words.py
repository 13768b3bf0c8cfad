"""Slack's wire text (mrkdwn) read into words: tokens resolved, entities unescaped, mentions seen.

Tokens such as `<@U1|bob>` are read first and only then `&lt; &gt; &amp;` are unescaped, once: what
a person typed as `<@U1>` arrives escaped and stays literal text. Source of the grammar:
docs.slack.dev/messaging/formatting-message-text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from adapters.slack.facts import Facts

_TOKEN = re.compile(r"<([^<>]+)>")
_ENTITY = re.compile(r"&(amp|lt|gt);")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">"}
_BROADCASTS = frozenset({"here", "channel", "everyone"})
_BLANK = " \t\u00a0\u200b\u2060\ufeff"
_ADDRESSING = re.compile(rf"[{_BLANK}]*(?:[,，、：]|:(?![a-z0-9_+-]+:))?[{_BLANK}]*")
_TIGHT = re.compile(rf"[{_BLANK}]|[.,;:!?，。；：！？、)）]|\n")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_QUOTE = re.compile(r"\s*&gt;")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stretch of wire text.

    quoted: words that are shown but not said by the sender here: they can neither mention the bot
    nor command it.
    """

    source: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a message says.

    text: everything, for the prompt; own mentions are cut, others read @name and #channel.
    own: without what is quoted. quotes_bot: the bot's mention stands in a quote.
    is_complete: whether every name in it was known.
    """

    text: str = ""
    own: str = ""
    mentions_bot: bool = False
    quotes_bot: bool = False
    mentions_others: bool = False
    is_complete: bool = True


def escape(text: str) -> str:
    """Literal text as wire text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """The three entities of Slack, once; no other HTML entity is one."""
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)


def trim(text: str) -> str:
    """Without white space and zero-width characters at both ends."""
    return text.strip().strip(_BLANK + "\n\r\f\v\u3000")


def passages_of(source: str) -> list[Passage]:
    """Wire text split where quotes (`> ` lines, all after `>>>`) begin and end, outside code."""
    passages: list[Passage] = []
    in_code = in_rest = False
    for line in source.split("\n"):
        opens_quote = not in_code and _QUOTE.match(line) is not None
        in_rest = in_rest or (opens_quote and line.lstrip().startswith("&gt;&gt;&gt;"))
        in_code ^= line.count("```") % 2 == 1
        quoted = opens_quote or in_rest
        if passages and passages[-1].quoted is quoted:
            passages[-1] = Passage(source=f"{passages[-1].source}\n{line}", quoted=quoted)
        else:
            passages.append(Passage(source=line, quoted=quoted))
    return passages


def literals(passages: Iterable[Passage]) -> set[str]:
    """The words outside tokens: two writings of one message may label its tokens differently."""
    texts = (unescape(_TOKEN.sub(" ", passage.source)) for passage in passages)
    return {word for text in texts for word in re.findall(r"\w+", text)}


def read(passages: Iterable[Passage], facts: Facts) -> Words:
    """Read passages, each on lines of its own."""
    reader = _Reader(facts)
    texts: list[tuple[str, bool]] = []
    for passage in passages:
        pieces = list(reader.pieces(passage))
        text = "".join(map(str, pieces)) if passage.quoted else _without_own_mentions(pieces)
        if trim(text):
            texts.append((text, passage.quoted))
    return Words(
        text=trim("\n".join(text for text, _ in texts)),
        own=trim("\n".join(text for text, quoted in texts if not quoted)),
        mentions_bot=reader.mentions_bot,
        quotes_bot=reader.quotes_bot,
        mentions_others=reader.mentions_others,
        is_complete=reader.is_complete,
    )


class _OwnMention(str):
    """The bot's own @name where it may have to be cut."""

    __slots__ = ()


class _Reader:
    """Resolves tokens and notes what it met."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.mentions_bot = self.quotes_bot = self.mentions_others = False
        self.is_complete = True

    def pieces(self, passage: Passage) -> Iterator[str]:
        """Text and resolved tokens in turn; an own mention is an _OwnMention."""
        end = 0
        for token in _TOKEN.finditer(passage.source):
            yield unescape(passage.source[end : token.start()])
            yield self._resolve(token[1], quoted=passage.quoted)
            end = token.end()
        yield unescape(passage.source[end:])

    def _resolve(self, token: str, *, quoted: bool) -> str:
        target, _, label = token.partition("|")
        label = unescape(label)
        match target[:1]:
            case "@":
                return self._user(target[1:], label, quoted=quoted)
            case "#":
                return f"#{self._name(self._facts.channels, target[1:], label)}"
            case "!":
                return self._special(target[1:], label, quoted=quoted)
        if _SCHEME.match(target):
            return _link(unescape(target), label)
        return f"<{unescape(token)}>"  # no token of Slack: somebody's unescaped text

    def _user(self, user_id: str, label: str, *, quoted: bool) -> str:
        if user_id in self._facts.identity.user_ids:
            if quoted:
                self.quotes_bot = True
            else:
                self.mentions_bot = True
            name = self._facts.identity.name or label or user_id
            return _OwnMention(f"@{name.lstrip('@')}")
        self.mentions_others = self.mentions_others or not quoted
        return f"@{self._name(self._facts.users, user_id, label)}"

    def _special(self, target: str, label: str, *, quoted: bool) -> str:
        kind, _, detail = target.partition("^")
        if kind == "subteam":
            self.mentions_others = self.mentions_others or not quoted
            return f"@{self._name(self._facts.groups, detail, label)}"
        if kind in _BROADCASTS:
            return f"@{kind}"
        return label or kind  # a date's fallback, or whatever Slack invents

    def _name(self, names: Mapping[str, str], key: str, label: str) -> str:
        known = names.get(key)
        label = label.lstrip("@#")
        if known is None and not label:
            self.is_complete = False
        return known or label or key


def _link(url: str, label: str) -> str:
    """A link as `label (url)`, or only once where both say the same."""
    bare = re.sub(r"^(?:https?://|mailto:|tel:)", "", url).rstrip("/")
    if not label or label.rstrip("/") in {url.rstrip("/"), bare}:
        return bare if url.startswith(("mailto:", "tel:")) else url
    if url.startswith("tel:"):
        return label
    return f"{label} ({bare if url.startswith('mailto:') else url})"


def _without_own_mentions(pieces: Iterable[str]) -> str:
    """Join pieces; where an own mention stood no double space and no `: ` is left behind."""
    text = ""
    cut = False
    for piece in pieces:
        if isinstance(piece, _OwnMention):
            cut = True
            continue
        if cut and piece:
            if not text.rstrip(_BLANK) or text.rstrip(_BLANK).endswith("\n"):
                piece = _ADDRESSING.sub("", piece, count=1)  # noqa: PLW2901  # the rest of it
            elif _TIGHT.match(piece):
                text = text.rstrip(_BLANK)
            cut = False
        text += piece
    return text.rstrip(_BLANK) if cut else text
