"""What each kind of message says, read from its own content alone. Pure.

Source of the kinds: open.feishu.cn, "Receive message content". What a kind does not show in words
stands as a mark in brackets; a kind that nobody knows yet is a mark too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from adapters.feishu.cards import read_card
from adapters.feishu.posts import read_post
from adapters.feishu.words import Reader, trim
from adapters.payload import Json, list_of, number_of, object_of, parse, storable, text_of

_WIDEST_MARK = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A message's content.

    pieces: text and own mentions in turn. files: (kind, key, name). is_spoken: whether these are
    words of the sender, which may command and mention. problem: why there is none, if so.
    """

    pieces: list[str]
    files: tuple[tuple[str, str, str], ...] = ()
    is_spoken: bool = False
    problem: str = ""


def read_content(kind: str, source: str, reader: Reader) -> Content:
    """Read the content of a message; `source` is the JSON text in which it comes."""
    # What the escapes of this inner JSON become was not seen from outside.
    parsed = parse(source)
    content = None if parsed is None else storable(parsed)
    if kind in _SPOKEN:
        return (
            Content(pieces=[], problem="bad_content")
            if content is None
            else _said(kind, content, reader)
        )
    content = content if content is not None else {}
    if kind == "interactive":
        return Content(pieces=[read_card(content) or "[card]"])
    if (file := _file(kind, content)) is not None:
        shown = f"[{file[0]}: {file[2]}]" if file[2] else f"[{file[0]}]"
        return Content(pieces=[_with_length(shown, content)], files=(file,))
    describe = _MARKS.get(kind)
    if describe is None:
        return Content(pieces=[f"[unsupported message: {kind or 'unknown'}]"])
    return Content(pieces=[describe(content, reader)[:_WIDEST_MARK]])


_SPOKEN = frozenset({"text", "post"})


def _said(kind: str, content: Json, reader: Reader) -> Content:
    if kind == "post":
        post = read_post(content, reader)
        return Content(pieces=post.pieces, files=post.files, is_spoken=True)
    text = content.get("text")
    if not isinstance(text, str):
        return Content(pieces=[], problem="bad_content")
    return Content(pieces=reader.plain(text), is_spoken=True)


def _file(kind: str, content: Json) -> tuple[str, str, str] | None:
    """A kind that is a file: (kind, key, name). A video's thumbnail is not the video."""
    name, key = text_of(content.get("file_name")), text_of(content.get("file_key"))
    match kind:
        case "image":
            return ("image", text_of(content.get("image_key")), "")
        case "file":
            return ("file", key, name)
        case "audio":
            return ("audio", key, name)
        case "media" | "video":
            return ("video", key, name)
        case _:
            return None


def _with_length(mark: str, content: Json) -> str:
    """With the length of a recording, which comes in milliseconds."""
    length_ms = number_of(content.get("duration"))
    return mark if not length_ms else f"{mark[:-1]}, {max(round(length_ms / 1000), 1)} s]"


# -- marks -----------------------------------------------------------------------------------------


def _mark(label: str, *details: str) -> str:
    told = "; ".join(detail for detail in map(trim, details) if detail)
    return f"[{label}: {told}]" if told else f"[{label}]"


def _shared_user(content: Json, reader: Reader) -> str:
    person_id = text_of(content.get("user_id"))
    return _mark("contact card", reader.name(person_id) or person_id)


def _location(content: Json, _reader: Reader) -> str:
    place = ", ".join(
        str(content[key]) for key in ("latitude", "longitude") if content.get(key) is not None
    )
    return _mark("location", text_of(content.get("name")), place)


def _todo(content: Json, reader: Reader) -> str:
    summary = content.get("summary")
    if isinstance(summary, str):
        return _mark("to-do", summary)
    return _mark("to-do", "".join(read_post(object_of(summary), reader).pieces))


def _vote(content: Json, _reader: Reader) -> str:
    options = [
        each if isinstance(each, str) else text_of(object_of(each).get("text"))
        for each in list_of(content.get("options"))
    ]
    return _mark("poll", text_of(content.get("topic")), ", ".join(filter(None, options)))


def _titled(label: str, *keys: str) -> Callable[[Json, Reader], str]:
    """A mark with the first of these fields that is there."""

    def describe(content: Json, _reader: Reader) -> str:
        return _mark(label, next((text_of(content.get(k)) for k in keys if content.get(k)), ""))

    return describe


_MARKS: dict[str, Callable[[Json, Reader], str]] = {
    "sticker": _titled("sticker"),
    "share_user": _shared_user,
    "share_chat": _titled("shared group", "chat_name", "chat_id"),
    "location": _location,
    "folder": _titled("folder", "file_name", "name"),
    "hongbao": _titled("red packet", "text", "title"),
    "todo": _todo,
    "vote": _vote,
    "video_chat": _titled("video meeting", "topic"),
    "calendar": _titled("calendar event", "summary"),
    "share_calendar_event": _titled("calendar event", "summary"),
    "general_calendar": _titled("calendar event", "summary", "title"),
    "merge_forward": _titled("forwarded messages"),
}
