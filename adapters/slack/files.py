"""Slack's file objects: what to call a file in a prompt, and where its bytes are."""

from __future__ import annotations

from urllib.parse import urlsplit

from adapters.payload import Json, object_of, text_of
from adapters.slack.words import escape
from clawbot.messages import Attachment

_GONE = frozenset({"tombstone", "hidden_by_limit"})
_HOSTS = (".slack.com", ".slack-gov.com", ".slack-files.com")
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


def is_slack_url(url: str, api_base_url: str) -> bool:
    """Whether the bot's token may be sent there."""
    try:
        asked, api = urlsplit(url), urlsplit(api_base_url)
        is_api = (asked.scheme, asked.hostname, asked.port) == (api.scheme, api.hostname, api.port)
    except ValueError:
        return False
    host = asked.hostname or ""
    return is_api or (asked.scheme == "https" and host.endswith(_HOSTS) and asked.port is None)


def refusal_of(status: int, content_type: str, mime: str) -> str | None:
    """Why an answer is not the file. Without the scope Slack answers with its page for signing in,
    as a redirect or with status 200.
    """
    is_page = content_type == "text/html" and mime != "text/html"
    if 300 <= status < 400 or (status == 200 and is_page):
        return "Slack gives it to nobody without the scope files:read"
    return None if status == 200 else f"Slack answered with HTTP {status}"


def _name(file: Json) -> str:
    names = (text_of(file.get(key)) for key in ("name", "title", "id"))
    return next((each for each in names if each), "unnamed")


def _kind(file: Json) -> str:
    family = text_of(file.get("mimetype")).partition("/")[0]
    if file.get("subtype") == "slack_audio":
        return "audio"
    return family if family in _KINDS else "file"
