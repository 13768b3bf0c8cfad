"""Rich text (`post`) as Markdown-like text. Pure.

A post is lines of nodes, wrapped in a locale, in `post` and a locale, or in nothing. Source of the
nodes: open.feishu.cn, "Message content".
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass

from adapters.feishu.words import Reader
from adapters.payload import Json, list_of, object_of, text_of
from clawbot.messages import Attachment

_LOCALES = ("zh_cn", "en_us", "ja_jp", "zh_hk", "zh_tw")
_RULE = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """pieces: text and own mentions in turn. files: (kind, key, name) of what is shown in it."""

    pieces: list[str]
    files: tuple[tuple[str, str, str], ...] = ()


def read_post(content: Json, reader: Reader) -> Post:
    """Read a post in any of its wrappings."""
    document = _document(content)
    writer = _Writer(reader)
    if title := text_of(document.get("title")):
        writer.line(reader.plain(title))
    lines = list_of(document.get("content"))
    if not any(map(_has_words, lines)):
        lines = list_of(document.get("content_v2")) or lines
    for nodes in lines:
        writer.paragraph([node for node in list_of(nodes) if isinstance(node, dict)])
    return Post(pieces=writer.pieces, files=tuple(writer.files))


def attachments_of(message_id: str, files: tuple[tuple[str, str, str], ...]) -> list[Attachment]:
    """Files of a message as attachments; their source says how the API finds them."""
    return [
        Attachment(kind=kind, name=name or kind, source=source_of(message_id, kind, key))
        for kind, key, name in files
        if key
    ]


def source_of(message_id: str, kind: str, key: str) -> str:
    """`message/type/key`, as `resource_of` reads it; all but pictures are files."""
    return f"{message_id}/{'image' if kind == 'image' else 'file'}/{key}"


def resource_of(source: str) -> tuple[str, str, str]:
    """Message, type and key of a source, for GET messages/:id/resources/:key?type=."""
    message_id, kind, key = source.split("/", 2)
    return message_id, kind, key


def _document(content: Json) -> Json:
    inner = object_of(content.get("post")) or content
    if "content" in inner or "content_v2" in inner or "title" in inner:
        return inner
    documents = {key: value for key, value in inner.items() if isinstance(value, dict)}
    for locale in (*_LOCALES, *documents):
        if locale in documents:
            return object_of(documents[locale])
    return {}


def _has_words(nodes: object) -> bool:
    return any(isinstance(node, dict) for node in list_of(nodes))


class _Writer:
    """Puts nodes into pieces, a paragraph a line."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.pieces: list[str] = []
        self.files: list[tuple[str, str, str]] = []

    def line(self, pieces: list[str]) -> None:
        """Add a line of its own."""
        self.pieces += ["\n", *pieces] if self.pieces else pieces

    def paragraph(self, nodes: list[Json]) -> None:
        """Add a line of nodes; a code block takes lines for itself."""
        run: list[str] = []
        for node in nodes:
            if text_of(node.get("tag")) != "code_block":
                run += self._node(node)
                continue
            if run:
                self.line(run)
            run = []
            self.line([_code(node)])
        if run or not nodes:
            self.line(run)

    def _node(self, node: Json) -> Iterator[str]:
        text = text_of(node.get("text"))
        match text_of(node.get("tag")):
            case "text":
                # Only this flag says that the client escaped it; no-break spaces come along.
                raw = html.unescape(text).replace("\u00a0", " ") if node.get("un_escape") else text
                yield from self._reader.plain(raw)
            case "md":
                yield from self._reader.tagged(text)
            case "a":
                yield from self._reader.plain(_link(text, text_of(node.get("href"))))
            case "at":
                who, label = text_of(node.get("user_id")), text_of(node.get("user_name"))
                if who or label:
                    yield self._reader.at(who, label)
            case "img":
                self.files.append(("image", text_of(node.get("image_key")), ""))
                yield "[image]"
            case "media":
                self.files.append(("video", text_of(node.get("file_key")), ""))
                yield "[video]"
            case "emotion":
                yield f"[{text_of(node.get('emoji_type')) or 'emoji'}]"
            case "hr":
                yield _RULE
            case _:
                yield from self._reader.plain(text)


def _link(text: str, href: str) -> str:
    if not href or text.strip() == href:
        return text or href
    return f"{text} ({href})" if text.strip() else href


def _code(node: Json) -> str:
    code = text_of(node.get("text")).strip("\n")
    language = text_of(node.get("language")).lower()
    return f"```{language}\n{code}\n```" if code else ""
