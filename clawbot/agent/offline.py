"""The offline model: built in, for trying clawbot without a key, only where the config names it.

It understands a few plain requests in English and Chinese by patterns, and answers them with real
tool calls. It implements `clawbot.ports.Model` itself instead of the model library's FunctionModel:
as there is no wire, a way through the library's messages and back would test nothing and hide how
small this is.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from clawbot.history import Entry, EntryKind, ModelReply, ModelRequest, ToolCall
from clawbot.text import head_and_tail

SHOWN_CHARS = 3000
_MAX_PIECES = 80

_QUOTED = r"[\"'`“‘「](?P<quoted>[^\"'`”’」\n]+)[\"'`”’」]"
_PATH = rf"(?:{_QUOTED}|(?P<path>[\w.@~+/\\-]+))"
# Before Chinese words, which are word characters too.
_PATH_BEFORE = rf"(?:{_QUOTED}|(?P<path>[\w.@~+/\\-]+?))"
_END = r"\s*[?？.。!！]*\s*$"
_READ = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:read|show|open|cat|print|display)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?{_PATH}",
        rf"(?:读一下|读取|读|查看|打开|看一下|看看|显示)\s*(?:一下)?\s*(?:文件)?\s*{_PATH}",
    )
)
_LIST = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?files\s+(?:in|of|under)\s+(?:the\s+)?{_PATH}",
        r"\b(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:the\s+|your\s+|my\s+)?files\b",
        r"\b(?:what|which)\s+files\b",
        rf"^\s*ls(?:\s+{_PATH})?{_END}",
        rf"\blist\s+{_PATH}{_END}",
        rf"(?:列出|列一下|看看|查看)\s*{_PATH_BEFORE}\s*(?:目录|文件夹|里|下|中)",
        rf"{_PATH_BEFORE}\s*(?:目录|文件夹)?\s*(?:里|里面|下|下面|中)?\s*(?:都)?有(?:什么|哪些|啥)",
        r"(?:列出|列一下).*文件|有(?:什么|哪些|啥)文件|文件列表",
    )
)
_WHAT_IS_IN = re.compile(
    rf"\bwhat(?:'s|’s|\s+is)\s+(?:in|inside|under)\s+(?:the\s+)?{_PATH}", re.IGNORECASE
)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_PIECE = re.compile(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+\s*|\s+")
_HERE = frozenset(
    {
        *("here", "there", "this", "it", "the", "workspace", "directory", "folder"),
        *("这", "那", "这个", "当前", "工作", "本", "现在"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What it says, in one language; `{}` is filled in."""

    introduction: str
    abilities: str
    content: str
    listing: str
    failure: str
    no_tool: str


_ENGLISH = _Words(
    introduction="I am clawbot's offline model: built in, without a language model behind me.",
    abilities=(
        "I can list and read the files of this chat's work directory: try “list files” or “read "
        "README.md”. For real answers, set `model:` in the config to a provider's model."
    ),
    content="This is `{}`:",
    listing="This is in `{}`:",
    failure="That did not work:",
    no_tool="I have no tool for that here.",
)
_IN_CHINESE = _Words(
    introduction="我是 clawbot 的离线模型:内置的,背后没有语言模型。",
    abilities=(
        "我可以列出和读取本会话工作目录中的文件:试试“列出文件”或“读取 README.md”。"
        "要得到真正的回答,请在配置里把 `model:` 设为某个服务商的模型。"
    ),
    content="`{}` 的内容:",
    listing="`{}` 里有:",
    failure="没有成功:",
    no_tool="这里没有可用的工具。",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A request that was understood: the tool that answers it, and the path it is about."""

    tool: str
    path: str


def understand(text: str) -> Intent | None:
    """What a message asks for, if it is one of the things known here."""
    named = _WHAT_IS_IN.search(text)
    if named:
        path = _path(named)
        is_file = "." in path.rsplit("/", 1)[-1].strip(".")
        return Intent(tool="read_file" if is_file else "list_dir", path=path)
    for tool, patterns in (("list_dir", _LIST), ("read_file", _READ)):
        for pattern in patterns:
            found = pattern.search(text)
            if found:
                return Intent(tool=tool, path=_path(found))
    return None


def _path(found: re.Match[str]) -> str:
    groups = found.groupdict()
    if groups.get("quoted"):
        return groups["quoted"]
    path = groups.get("path") or "."
    path = path if set(path) == {"."} else path.rstrip(".")
    return "." if path.lower() in _HERE else path


class OfflineModel:
    """Answers by patterns; see the module. `word_delay_s` makes live text visible."""

    name = "offline"

    def __init__(self, word_delay_s: float = 0.01) -> None:
        self._word_delay_s = word_delay_s

    async def reply(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
        """Answer the newest message, word by word, or ask for the tool that answers it."""
        reply = answer(request)
        on_text("")
        for piece in _pieces(reply.text):
            on_text(piece)
            await asyncio.sleep(self._word_delay_s)
        return reply


def answer(request: ModelRequest) -> ModelReply:
    """The reply to a request, whole."""
    asked, results = _newest_turn(request.entries)
    words = _IN_CHINESE if _CHINESE.search(asked) else _ENGLISH
    intent = understand(asked)
    tools = {tool.name for tool in request.tools}
    if intent and intent.tool in tools and not results:
        call = ToolCall(
            call_id=f"offline_{len(request.entries)}",
            tool=intent.tool,
            arguments=json.dumps({"path": intent.path}, ensure_ascii=False),
        )
        return ModelReply(tool_calls=(call,), finish_reason="tool_calls")
    if intent and results:
        said = _about_result(intent, results[-1], words)
    else:
        said = f"{words.no_tool} {words.abilities}" if intent else words.abilities
    is_first = not any(entry.kind is EntryKind.ASSISTANT for entry in request.entries)
    return ModelReply(text=f"{words.introduction}\n\n{said}" if is_first else said)


def _newest_turn(entries: Sequence[Entry]) -> tuple[str, list[Entry]]:
    """The newest message, and the tool results since."""
    results: list[Entry] = []
    for entry in reversed(entries):
        if entry.kind is EntryKind.USER:
            return entry.text, results[::-1]
        if entry.kind is EntryKind.TOOL_RESULT:
            results.append(entry)
    return "", results[::-1]


def _about_result(intent: Intent, result: Entry, words: _Words) -> str:
    if result.is_error:
        return f"{words.failure} {result.text}"
    title = words.content if intent.tool == "read_file" else words.listing
    shown = head_and_tail(result.text, SHOWN_CHARS)
    ticks = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{title.format(intent.path)}\n\n{fence}\n{shown}\n{fence}"


def _pieces(text: str) -> Iterator[str]:
    """The text in words, or in longer pieces so that a long text does not take long."""
    words = _PIECE.findall(text)
    size = max(1, -(-len(words) // _MAX_PIECES))
    for start in range(0, len(words), size):
        yield "".join(words[start : start + size])
