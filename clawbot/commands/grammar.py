"""How a chat command is written; pure.

`/stop`, `!stop` (some clients keep text that begins with a slash to themselves), both marks in
full width too, and, for stopping alone, the bare word. Names are known in English and Chinese. A
slash before any other word is plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAMES = {
    "help": "help",
    "帮助": "help",
    "new": "new",
    "新建": "new",
    "新对话": "new",
    "stop": "stop",
    "停止": "stop",
    "status": "status",
    "状态": "status",
    "task": "task",
    "任务": "task",
    "sessions": "sessions",
    "会话": "sessions",
    "use": "use",
    "切换": "use",
    "unread": "unread",
    "未读": "unread",
}
BARE = {"stop": "stop", "停止": "stop"}

# The others take nothing: with words behind them the line is a question to the agent.
_TAKES_WORDS = frozenset({"new", "stop", "task", "use"})
_MARKED = re.compile(r"[/!／！](\w+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command and the words after it."""

    name: str
    words: str = ""


def parse(text: str | None) -> Command | None:
    """Read a command; None for everything else."""
    line = (text or "").strip()
    if (bare := BARE.get(line.casefold())) is not None:
        return Command(name=bare)
    match = _MARKED.fullmatch(line)
    if match is None:
        return None
    name = NAMES.get(match[1].casefold())
    words = (match[2] or "").strip()
    if name is None or (words and name not in _TAKES_WORDS):
        return None
    return Command(name=name, words=words)
