"""Whether a call may be made, is asked about or refused: the rules of the config, then our own.

One function decides, and it decides by what is known before the call: tool, arguments, channel and
whose messages are answered. What a command really does cannot be told from its text; the sandbox
bounds that. Our own rules only name what people usually want to be asked about.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import regex  # type: ignore[import-untyped]  # ships no types

from clawbot.config_tools import ToolRule

MATCH_S = 0.5
_SHOWN_CHARS = 200

Verdict = Literal["allow", "ask", "deny"]

_DANGEROUS = {
    r"\brm\s+(?:-\S+\s+)*-\w*[rRf]": "Delete files",
    r"\bfind\b.*\s-(?:delete\b|exec\s+rm\b)": "Delete files",
    r"\bgit\s+(?:\S+\s+)*?(?:push|reset\s+--hard|clean\s+-\w*f\w*)\b": "Change a repository",
    r"\b(?:mkfs\S*|dd|shred|fdisk|parted|wipefs)\s": "Write to a device",
    r"\b(?:sudo|doas|su)\s": "Act as another user",
    r"\b(?:curl|wget)\b[^|;&]*\|\s*(?:\w+\s+)*(?:ba|z|da)?sh\b": "Run a script from the network",
    r"\b(?:shutdown|reboot|halt|poweroff|systemctl|service)\s": "Control services of the machine",
    r"\b(?:chmod|chown)\s+(?:-\S+\s+)*-\w*R": "Change permissions of many files",
    r"(?i)\b(?:drop|truncate)\s+(?:table|database|schema)\b": "Delete data",
    r"\b(?:npm|yarn|pnpm|cargo|poetry)\s+publish\b|\btwine\s+upload\b|\bdocker\s+push\b": "Publish",
    r"\b(?:kubectl|terraform|helm)\s+(?:delete|apply|destroy|uninstall|upgrade)\b": "Deploy",
    r":\s*\(\s*\)\s*\{": "Start processes without end",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call before it is made; see `ToolRule` for what is asked of it. work_dirs: where it would
    be made.
    """

    tool: str
    arguments: Any
    channel: str
    is_owner: bool
    work_dirs: Sequence[Path] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What becomes of a call; reason: the question to people, or what the agent is told."""

    verdict: Verdict
    reason: str = ""


ALLOWED = Judgement(verdict="allow")


class Rules:
    """The rules of a config, ready to use. They can be changed while turns run by them."""

    def __init__(self, rules: Sequence[ToolRule], *, ask_dangerous: bool) -> None:
        self.change(rules, ask_dangerous=ask_dangerous)

    def change(self, rules: Sequence[ToolRule], *, ask_dangerous: bool) -> None:
        """Judge by these from the next call on, all at once."""
        known = _DANGEROUS if ask_dangerous else {}
        self._compiled = (
            [(rule, regex.compile(rule.arguments)) for rule in rules],
            [(regex.compile(text, regex.DOTALL), reason) for text, reason in known.items()],
        )

    def judge(self, call: AskedCall) -> Judgement:
        """Decide."""
        text, *others = _texts_of(call)
        rules, dangerous = self._compiled
        for rule, pattern in rules:
            if _is_about(rule, call) and _fits(pattern, (text, *others), allows=rule.do == "allow"):
                return Judgement(verdict=rule.do, reason=rule.reason)
        if call.tool == "bash":
            for pattern, reason in dangerous:
                if _finds(pattern, text, in_doubt=True):
                    return Judgement(verdict="ask", reason=reason)
        return ALLOWED


def question_of(call: AskedCall, reason: str) -> str:
    """What people are asked, in one line."""
    shown = " ".join(_texts_of(call)[0].split())
    return f"{reason or call.tool}: {shown[:_SHOWN_CHARS]}"


def _is_about(rule: ToolRule, call: AskedCall) -> bool:
    if rule.sender != "anyone" and (rule.sender == "owner") is not call.is_owner:
        return False
    return fnmatchcase(call.tool, rule.tool) and fnmatchcase(call.channel, rule.channel)


def _fits(pattern: Any, texts: Sequence[str], *, allows: bool) -> bool:
    """Whether a rule fits a call, by whichever name it calls its file: what allows must fit all of
    the names, what does not is put off by none.
    """
    found = (_finds(pattern, text, in_doubt=not allows) for text in texts)
    return all(found) if allows else any(found)


def _finds(pattern: Any, text: str, *, in_doubt: bool) -> bool:
    """Whether an expression is found; `in_doubt` is the answer when that takes too long."""
    try:
        return pattern.search(text, timeout=MATCH_S) is not None
    except TimeoutError:
        return in_doubt


def _texts_of(call: AskedCall) -> list[str]:
    """What rules look at: a command, a path or an address alone, else all arguments as JSON. A path
    as it was given, and as it is called in its work directory.
    """
    data = call.arguments.model_dump(mode="json")
    for name in ("command", "url"):
        if isinstance(data.get(name), str):
            return [data[name]]
    if isinstance(data.get("path"), str):
        return list(dict.fromkeys((data["path"], _plain(data["path"], call.work_dirs))))
    return [json.dumps(data, ensure_ascii=False)]


def _plain(path: str, work_dirs: Sequence[Path]) -> str:
    """A path without detours, relative to the work directory that it names."""
    plain = posixpath.normpath(path)
    for root in work_dirs:
        if plain.startswith(f"{root}/"):
            return plain.removeprefix(f"{root}/")
    return plain
