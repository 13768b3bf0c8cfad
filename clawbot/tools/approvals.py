"""Asking people whether a call may be made: the words of the question, and what its answer means.

The question names the tool and the very arguments of the call, so that nobody allows what they have
not seen; when and by whom it is decided stands in `clawbot.store.approvals`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import partial

from clawbot.commands.answers import answer
from clawbot.errors import ToolError, TurnParked
from clawbot.history import ToolCall
from clawbot.messages import Choice
from clawbot.ports import Clock, Store
from clawbot.store import approvals
from clawbot.store.approvals import Closing, Ruling
from clawbot.store.claims import Claim
from clawbot.text import head_and_tail

QUESTION_CHARS = 300
ARGUMENT_CHARS = 1500

_ENDINGS = (
    *("approved", "approved_session", "approved_until"),
    *("denied", "expired", "cancelled"),
)
_REFUSED = {
    "denied": "A person refused this call; it was not made. Do not try it again unasked.",
    "expired": "Nobody allowed this call in time; it was not made.",
    "cancelled": "The question about this call was taken back; it was not made.",
    "used": "What was allowed of this call has been used already; it is not made again.",
    "changed": "People were asked about other arguments; the call was not made.",
}


class TurnApprovals:
    """The questions of one turn; a `tools.context.Approvals`. bound: what else a decision holds for
    alone, such as the directories.
    """

    def __init__(
        self, store: Store, clock: Clock, turn: Claim, expires_s: float, bound: str = ""
    ) -> None:
        self._store = store
        self._clock = clock
        self._turn = turn
        self._expires_s = expires_s
        self._bound = bound

    async def ask(self, call: ToolCall, question: str) -> None:
        """See `ports.ToolContext.ask`."""
        now_ms = self._clock.now_ms()
        approval_id = approvals.fresh_id()
        like = self._turn.rows[-1].text
        task = self._turn.task
        words = question if task is None else f"[{task.title}] {question}"
        asked = question_text(call, words, like=like)
        minutes = max(1, round(self._expires_s / 60))
        how = answer("approval_how", like=like, id=approval_id, minutes=minutes)
        ruling: Ruling = await self._store.write(
            partial(
                approvals.ask,
                turn=self._turn,
                call=call,
                new_id=approval_id,
                text=f"{asked}\n{how}",
                closing=Closing(text=asked, endings=_endings(like), subject=_one_line(question)),
                expires_ms=now_ms + round(self._expires_s * 1000),
                now_ms=now_ms,
                choices=self._choices(approval_id),
                bound=self._bound,
            )
        )
        if ruling.state == "open":
            raise TurnParked
        if ruling.state != "approved":
            reason = f" Their words: {ruling.reason}" if ruling.reason else ""
            raise ToolError(_REFUSED[ruling.state] + reason)

    def was_asked(self, call: ToolCall) -> bool:
        """See `tools.context.Approvals`."""
        return call.seq in self._turn.asked

    def _choices(self, approval_id: str) -> tuple[Choice, ...]:
        """What people may answer; for longer only where somebody can be asked again."""
        like = self._turn.rows[-1].text
        commands = {"approve": f"/approve {approval_id}"}
        if not self._turn.rows[0].sender.is_bot:
            commands["session"] = f"/approve {approval_id} always"
            commands["hour"] = f"/approve {approval_id} 1h"
        commands["deny"] = f"/deny {approval_id}"
        return tuple(
            Choice(label=answer(f"choice_{name}", like=like), command=command)
            for name, command in commands.items()
        )


def _endings(like: str) -> dict[str, str]:
    """How a question can end; the name of who decides, and a time, are not known yet."""
    return {
        state: answer(f"approval_ends_{state}", like=like, by="{by}", until="{until}")
        for state in _ENDINGS
    }


def question_text(call: ToolCall, question: str, *, like: str) -> str:
    """What people are asked, in the language of the text `like`. What a call's only argument says
    stands there as it is, and once.
    """
    only = _only_text(call.arguments)
    arguments = shown_arguments(call.arguments) if only is None else _bounded(only)
    if only:
        question = question.removesuffix(f": {' '.join(only.split())}")
    fence = _fence_for(arguments)
    return answer(
        "approval_question",
        like=like,
        question=_one_line(question),
        tool=call.tool,
        arguments=f"{fence}\n{arguments}\n{fence}",
    )


def shown_arguments(arguments: str) -> str:
    """A call's arguments for people: laid out, bounded, with nothing in them that hides."""
    try:
        laid_out = json.dumps(json.loads(arguments or "{}"), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        laid_out = arguments
    return _bounded(laid_out)


def _only_text(arguments: str) -> str | None:
    """The argument of a call that has one, if that is a text."""
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    values = list(given.values()) if isinstance(given, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def _bounded(text: str) -> str:
    return head_and_tail(_visible(text), ARGUMENT_CHARS)


def _visible(text: str) -> str:
    """Control characters, and those that turn the direction of what follows, are spelled out."""
    return "".join(
        char if char == "\n" or unicodedata.category(char)[0] != "C" else f"\\u{ord(char):04x}"
        for char in text
    )


def _one_line(question: str) -> str:
    line = _visible(" ".join(question.split()))
    return line if len(line) <= QUESTION_CHARS else line[: QUESTION_CHARS - 1] + "…"


def _fence_for(text: str) -> str:
    """A fence that the text cannot close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)
