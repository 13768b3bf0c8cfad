"""What people ask in the kill matrix and in the soak, and what the model says to it.

Every answer bears marks, one or more, each of which names the question; so it is seen in the chats
what was answered, how often, and where.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.simulators.model import RecordedRequest, Reply, ToolCall

Asks = Literal["tool", "grow", "long", "late"]

PIECES = 10
LATE_S = 1.6  # before each of two pieces
_ASKED = re.compile(r"case (\d+) (tool|grow|long|late) (\d+)")
_MARK = re.compile(r"\[(\d+)\.(\w+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A message that somebody sent. place: where its answer must stand, as the platform tells it;
    chat_id: the platform's id of the chat; paragraphs: of a long answer.
    """

    number: int
    kind: Asks
    place: tuple[str, ...]
    chat_id: str
    paragraphs: int

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks that a whole answer bears, once each."""
        return marks(self.kind, self.number, self.paragraphs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message of the bot, as people see it at the end. is_notice: the platform itself says it."""

    place: tuple[str, ...]
    text: str
    is_notice: bool = False


def marks(kind: str, number: int, paragraphs: int) -> tuple[str, ...]:
    """See `Asked.marks`."""
    names = map(str, range(paragraphs)) if kind == "long" else ("first", "last")
    return tuple(f"[{number}.{name}]" for name in names)


def question(kind: Asks, number: int, paragraphs: int) -> str:
    """The words of a message."""
    return f"case {number} {kind} {paragraphs}"


def answer(request: RecordedRequest) -> Reply:
    """What the model says; the same to the same question, however often it is asked."""
    found = _ASKED.search(request.last_user_text)
    assert found is not None, request.last_user_text
    kind, all_marks = found[2], marks(found[2], int(found[1]), int(found[3]))
    match kind:
        case "long":
            return Reply(text="\n\n".join(f"{mark} " + "word " * 140 for mark in all_marks))
        case "grow":
            middle = (f"piece {number} " for number in range(PIECES))
            return Reply(text=(f"{all_marks[0]} ", *middle, all_marks[1]), delay_s=0.12)
        case "late":
            return Reply(text=(f"{all_marks[0]} ", all_marks[1]), delay_s=LATE_S)
        case _ if not any(message.tool_results for message in request.messages):
            return Reply(tool_calls=(ToolCall(name="list_dir", arguments={"path": "."}),))
        case _:
            return Reply(text=f"{all_marks[0]} done {all_marks[1]}")


class Seen:
    """What stands in the chats, by question."""

    def __init__(self, sent: Iterable[Sent]) -> None:
        self.marks: dict[int, Counter[str]] = {}
        self.places: dict[int, list[tuple[str, ...]]] = {}
        self.strays: list[Sent] = []
        for message in sent:
            found = [(int(mark[1]), mark[0]) for mark in _MARK.finditer(message.text)]
            if not found:
                self.strays.append(message)
            for number in {number for number, _ in found}:
                self.places.setdefault(number, []).append(message.place)
            for number, mark in found:
                self.marks.setdefault(number, Counter())[mark] += 1

    def is_whole(self, asked: Asked) -> bool:
        """Whether the whole answer is there, perhaps more than once."""
        counts = self.marks.get(asked.number, Counter())
        return all(counts[mark] for mark in asked.marks)

    def is_doubled(self, asked: Asked, most_messages: int) -> bool:
        """Whether anything of the answer stands there twice."""
        counts = self.marks.get(asked.number, Counter())
        return max(counts.values(), default=0) > 1 or (
            len(self.places.get(asked.number, ())) > most_messages
        )

    def is_astray(self, asked: Asked) -> bool:
        """Whether something of the answer stands where nobody asked."""
        return any(place != asked.place for place in self.places.get(asked.number, ()))
