"""How a chat command is written; pure.

`/stop`, `!stop` (some clients keep text that begins with a slash to themselves), both marks in
full width too. Names are known in English and Chinese. A slash before any other word is plain text.

Stopping needs no mark. `stop` and `停止` alone always stop; other words that people use for it are
read so only while there is something to stop, because they may as well answer a question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command and the words after it.

    only_if_busy: it is one only while its session has something to stop, else plain text.
    """

    name: str
    words: str = ""
    only_if_busy: bool = False


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
    "compact": "compact",
    "压缩": "compact",
    "context": "context",
    "上下文": "context",
    "cost": "cost",
    "费用": "cost",
    "unread": "unread",
    "未读": "unread",
    "approve": "approve",
    "批准": "approve",
    "deny": "deny",
    "model": "model",
    "模型": "model",
    "remind": "remind",
    "plan": "plan",
    "计划": "plan",
    "提醒": "remind",
    "拒绝": "deny",
}
BARE = {
    "stop": Command(name="stop"),
    "停止": Command(name="stop"),
    "stop all": Command(name="stop", words="all"),
    "全部停止": Command(name="stop", words="all"),
    "停止全部": Command(name="stop", words="all"),
}
NATURAL_STOPS = frozenset(
    {
        *(
            "stop it",
            "stop that",
            "stop now",
            "stop please",
            "please stop",
            "cancel",
            "cancel that",
        ),
        *("abort", "停", "停下", "停下来", "停一下", "请停止", "别做了", "取消", "中止", "终止"),
    }
)

# The others take nothing: with words behind them the line is a question to the agent.
_TAKES_WORDS = frozenset({"new", "stop", "task", "use", "approve", "deny", "model", "remind"})
# Or these words alone.
EVERYTHING = frozenset({"all", "全部", "所有"})
PLAN_ON, PLAN_OFF = frozenset({"on", "开", "开启"}), frozenset({"off", "关", "关闭"})
_TAKES_ONLY = {"cost": EVERYTHING, "plan": PLAN_ON | PLAN_OFF}
_ENDS = " \t\n.!。！…~～"
_MARKED = re.compile(r"[/!／！](\w+)(?:\s+(.*))?", re.DOTALL)


def parse(text: str | None) -> Command | None:
    """Read a command; None for everything else."""
    line = (text or "").strip()
    words = " ".join(line.rstrip(_ENDS).replace(",", " ").casefold().split())
    if (bare := BARE.get(words)) is not None:
        return bare
    if words in NATURAL_STOPS:
        return Command(name="stop", only_if_busy=True)
    match = _MARKED.fullmatch(line)
    if match is None:
        return None
    name = NAMES.get(match[1].casefold())
    words = (match[2] or "").strip()
    is_meant = name in _TAKES_WORDS or words.casefold() in _TAKES_ONLY.get(name or "", ())
    if name is None or (words and not is_meant):
        return None
    return Command(name=name, words=words)
