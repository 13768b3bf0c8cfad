"""From a reply's Markdown to what is sent to Slack, and how large it is there. Pure: no network.

A message carries its text twice: in a `markdown` block, which people see, and as mrkdwn in `text`,
for notifications, search and clients without blocks. A stream takes Markdown alone.

Nothing the model writes can notify people by itself: `<!channel>`, `<@U1>` and `@here` are broken
by an invisible character. Only `@name` of a person whom we know becomes a mention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.slack.markdown import Passages, closing_fence, loosen, passages_of
from adapters.slack.mrkdwn import render, render_short

MARKDOWN_LIMIT = 12_000
"""Characters in all markdown blocks of a message, and in one `markdown_text`."""

MAX_SIZE = 10_500
"""Of a part; the rest of the limit is for a line of progress and for mentions, which are longer
than the names that they stand for."""

COMMAND_ACTION = "clawbot_command"
"""Begins the action_id of a button that stands for typing a command."""

_MAX_BUTTONS = 25  # of an actions block
_BUTTON_CHARS = 75
_VALUE_CHARS = 2000
_MAX_MENTIONS = 50
_MENTION_BYTES = 20
_PROGRESS_CHARS = 200
_LONGEST_NAME = 80
_INVISIBLE = "\u200b"
_TOKEN = re.compile(r"<(?=!(?i:here|channel|everyone|subteam|date)\b|[@#][A-Z0-9]+[|>])")
_USER_TOKEN = re.compile(rf"<{_INVISIBLE}@([A-Z0-9]+)(?:\|[^<>\n]*)?>")
_AT = re.compile(r"(?<![A-Za-z0-9_.@/+<\u200b-])@")
_BROADCAST = re.compile(r"@(?=(?:here|channel|everyone)\b)", re.IGNORECASE)
_UNDECIDED = re.compile(r"(?:<[^<>\s]{0,40}|(?<![A-Za-z0-9_.@/+<-])@[^@\n]{0,40}|\*+|`+)\Z")
_SPECIAL = re.compile(r"([\\`*_~\[\]<>#|])")
_STAND_INS = 0x10E000  # private-use characters that stand for mentions while mrkdwn is made
_STAND_IN = re.compile("[\U0010e000-\U0010e0ff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Whom an answer may mention: Slack ids by lower-case name, no name that two people have, and
    all known ids.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Mapping[str, str]) -> People:
        """From names by id."""
        ids: dict[str, str] = {}
        shared: set[str] = set()
        for user_id, name in names.items():
            key = name.lower()
            if ids.setdefault(key, user_id) != user_id:
                shared.add(key)
        return cls(
            ids={key: ids[key] for key in ids.keys() - shared if key}, known=frozenset(names)
        )

    def named_at(self, text: str, start: int) -> tuple[str, int] | None:
        """Whose name stands in `text` from `start`, the longest one, and where it ends."""
        for end in range(min(len(text), start + _LONGEST_NAME), start, -1):
            if end < len(text) and _continues(text[end - 1], text[end]):
                continue
            user_id = self.ids.get(text[start:end].lower())
            if user_id is not None:
                return user_id, end
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is sent: `markdown` for the block, `text` as the mrkdwn that stands in for it, and
    buttons, as label and command.
    """

    text: str
    markdown: str
    buttons: tuple[tuple[str, str], ...] = ()

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The Block Kit of it; one markdown block, whose limit counts for all of a message."""
        if not self.markdown.strip():
            return []
        block = {"type": "markdown", "text": self.markdown}
        return [block, *([_actions(self.buttons)] if self.buttons else [])]


def compose(markdown: str, progress: str = "", people: People | None = None) -> Content:
    """What a message shows; `progress` is a last line on what the agent is doing."""
    people = people or People()
    line = _progress_line(progress)
    mentioned: list[str] = []

    def stand_in(user_id: str) -> str:
        mentioned.append(user_id)
        return chr(_STAND_INS + len(mentioned) - 1)

    plain = _marked(_STAND_IN.sub("", markdown), people, stand_in)
    plain = plain.replace(f"<{_INVISIBLE}", "<")  # mrkdwn is escaped
    text = render_short(_with_line(plain, line), reserve_bytes=len(mentioned) * _MENTION_BYTES)
    for number, user_id in enumerate(mentioned):
        text = text.replace(chr(_STAND_INS + number), f"<@{user_id}>")
    shown = _with_line(_marked(markdown, people, "<@{}>".format), line)
    return Content(text=text, markdown=shown)


def _with_line(text: str, line: str) -> str:
    closing = closing_fence(text)
    text = text.removesuffix("\n") + f"\n{closing}" if closing else text
    return f"{text}\n\n{line}".lstrip("\n") if line else text


def _actions(buttons: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    elements = [
        {
            "type": "button",
            "action_id": f"{COMMAND_ACTION}:{number}",
            "text": {"type": "plain_text", "text": label[:_BUTTON_CHARS]},
            "value": command,
        }
        for number, (label, command) in enumerate(buttons[:_MAX_BUTTONS])
        if len(command) <= _VALUE_CHARS
    ]
    return {"type": "actions", "elements": elements}


def grown(markdown: str, people: People | None = None, *, is_final: bool = True) -> str:
    """What a stream shows. While the text grows, an end is left out of which the next letters
    decide what it means, so that a longer text mostly begins with a shorter one.
    """
    decided = markdown if is_final else _UNDECIDED.sub("", markdown)
    return _marked(decided, people or People(), "<@{}>".format)


def whole_text(markdown: str) -> str:
    """All of it as mrkdwn, for a message without blocks."""
    return render(markdown)


def measure(markdown: str) -> int:
    """The size of a part in the unit of MAX_SIZE: UTF-16 units of its Markdown as sent."""
    return units(_marked(markdown, People(), str))


def units(text: str) -> int:
    """UTF-16 units, of which there are at least as many as characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _marked(markdown: str, people: People, mention: Callable[[str], str]) -> str:
    """The text in which nothing notifies anybody but the known people whom it names."""
    passages: Passages = passages_of(_TOKEN.sub(f"<{_INVISIBLE}", markdown))
    left = _MAX_MENTIONS
    texts: list[str] = []
    for text, is_code in loosen(passages):
        shown = text
        if not is_code:
            shown, left = _with_mentions(text, people, mention, left)
        texts.append(shown)
    return "".join(texts)


def _with_mentions(
    text: str, people: People, mention: Callable[[str], str], left: int
) -> tuple[str, int]:
    """Prose with at most `left` mentions in place of names and tokens; and how many may follow."""
    pieces: list[str] = []
    end = 0
    for found in re.finditer(f"{_USER_TOKEN.pattern}|{_AT.pattern}", text):
        if found.start() < end or not left:
            continue
        target = (found[1], found.end()) if found[1] else people.named_at(text, found.end())
        if target is None or target[0] not in people.known:
            continue
        pieces += [text[end : found.start()], mention(target[0])]
        end = target[1]
        left -= 1
    pieces.append(text[end:])
    return "".join(_BROADCAST.sub(f"@{_INVISIBLE}", piece) for piece in pieces), left


def _continues(last: str, following: str) -> bool:
    """Whether a word goes on after what might be a name; Chinese may follow a Latin name."""
    return (following.isalnum() or following == "_") and not (
        last.isascii() and not following.isascii()
    )


def _progress_line(progress: str) -> str:
    if not progress:
        return ""
    line = " ".join(progress.split())
    line = line if len(line) <= _PROGRESS_CHARS else f"{line[: _PROGRESS_CHARS - 1]}…"
    line = _BROADCAST.sub(f"@{_INVISIBLE}", _TOKEN.sub(f"<{_INVISIBLE}", line))
    line = _SPECIAL.sub(r"\\\1", line)
    return f"⏳ {line}"
