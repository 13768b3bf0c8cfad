"""Slack's file objects: what to call a file in a prompt, and where its bytes are."""

from __future__ import annotations

from adapters.payload import Json, object_of, text_of
from adapters.slack.words import escape
from clawbot.messages import Attachment

_GONE = frozenset({"tombstone", "hidden_by_limit"})
_KINDS = frozenset({"image", "audio", "video"})


def attachment_of(file: Json) -> Attachment | None:
    """The file as an attachment; None when Slack no longer has it or does not say where it is."""
    source = text_of(file.get("url_private_download")) or text_of(file.get("url_private"))
    if not source or text_of(file.get("mode")) in _GONE:
        return None
    size = file.get("size")
    return Attachment(
        kind=_kind(file),
        name=_name(file),
        source=source,
        mime=text_of(file.get("mimetype")),
        size_bytes=size if isinstance(size, int) else None,
    )


def describe(file: Json) -> str:
    """One line of wire text that stands for the file, with the words of a voice clip."""
    if text_of(file.get("mode")) in _GONE:
        return "[file: no longer available]"
    transcript = object_of(object_of(file.get("transcription")).get("preview"))
    words = text_of(transcript.get("content"))
    label = f"[{_kind(file)}: {_name(file)}]"
    return escape(f"{label} {words}" if words else label)


def is_undescribed(file: Json) -> bool:
    """Whether only `files.info` tells more (a file of another workspace, Slack Connect)."""
    return file.get("file_access") == "check_file_info"


def _name(file: Json) -> str:
    names = (text_of(file.get(key)) for key in ("name", "title", "id"))
    return next((each for each in names if each), "unnamed")


def _kind(file: Json) -> str:
    family = text_of(file.get("mimetype")).partition("/")[0]
    if file.get("subtype") == "slack_audio":
        return "audio"
    return family if family in _KINDS else "file"
