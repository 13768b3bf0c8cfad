"""What the page is sent, as JSON: sessions and transcripts with their names, texts and HTML; pure.

Thinking is left out, long tool results are cut in the middle, answers are rendered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from clawbot.commands.grammar import parse
from clawbot.session_key import SessionKey
from clawbot.store.transcript import EntryView, EventView, Origin, Position, Transcript
from clawbot.store.views import RunningView, SessionView
from clawbot.text import head_and_tail
from clawbot.web.markdown import Renderer

Json: TypeAlias = "dict[str, object]"

WEB_CHANNEL = "web"
IDENTITY_PREFIX = "web:"
TITLE_CHARS = 60
TOOL_CHARS = 6_000
LIVE_CHARS = 30_000
HIDDEN = frozenset({"thinking"})


# -- sessions --------------------------------------------------------------------------------------


def session_json(view: SessionView) -> Json:
    """A session as the list shows it. `total` is the number of replies that could be read."""
    key = SessionKey.parse(view.key)
    return {
        "key": view.key,
        "title": _first_words(view.words) or _name(key),
        "channel": channel_name(key),
        "state": view.state,
        "total": view.visible_total,
        "seq": view.last_seq,
        "created_ms": view.created_ms,
        "active_ms": view.active_ms,
    }


def channel_name(key: SessionKey) -> str:
    """Where a session's messages come from, in one word."""
    if key.channel is not None:
        return key.channel
    return "terminal" if key.directory is not None else WEB_CHANNEL


def _first_words(text: str) -> str:
    words = " ".join(text.split())
    if len(words) <= TITLE_CHARS:
        return words
    return words[:TITLE_CHARS].rsplit(" ", 1)[0].rstrip(",.;:") + "…"


def _name(key: SessionKey) -> str:
    """A readable name for a session in which nothing was said."""
    if key.task is not None:
        return f"Task {key.task}"
    if key.directory is not None:
        return key.directory.rstrip("/").rpartition("/")[2] or key.directory
    if key.is_global:
        return "Main chat"
    return "New chat" if key.channel == WEB_CHANNEL else key.chat_id or str(key)


# -- transcripts -----------------------------------------------------------------------------------


def transcript_json(page: Transcript, renderer: Renderer) -> Json:
    """A page of a transcript; `items` are in order, each with an id that never changes."""
    # The answer to `/new` says no more than the new beginning that stands before it.
    happened = [one for one in page.events if not _is_new(one)]
    placed = [*_entries(page, renderer), *((one.at, _event(one, renderer)) for one in happened)]
    placed.sort(key=lambda pair: pair[0])
    return {
        "session": session_json(page.session),
        "items": [item for _, item in placed],
        "older": None if page.older is None else position_text(page.older),
        "waiting": [
            {"id": f"w{one.seq}", "text": one.text, **_origin(one.origin)} for one in page.waiting
        ],
        "running": None if page.running is None else running_json(page.running, renderer),
    }


def empty_transcript_json(key: SessionKey) -> Json:
    """A session in which nothing happened yet; it is made by its first message."""
    view = SessionView(
        key=str(key),
        words="",
        chat_type="",
        state="idle",
        last_seq=0,
        visible_total=0,
        created_ms=0,
        active_ms=0,
    )
    return {
        "session": session_json(view),
        "items": [],
        "older": None,
        "waiting": [],
        "running": None,
    }


def running_json(view: RunningView, renderer: Renderer) -> Json:
    """An open turn; of a very long live text only its end is shown until it is finished."""
    live = view.live
    if len(live) > LIVE_CHARS:
        live = "…\n\n" + live[-LIVE_CHARS:]
    return {
        "turn": view.turn,
        "state": view.state,
        "seq": view.last_seq,
        "html": renderer.html(live) if live else "",
        "progress": view.progress,
        "started_ms": view.started_ms,
    }


def position_text(position: Position) -> str:
    """A position as it stands in an address: EPOCH.SEQ."""
    return f"{position.epoch}.{position.seq}"


def _entries(page: Transcript, renderer: Renderer) -> Iterator[tuple[Position, Json]]:
    for entry in page.entries:
        if entry.kind in HIDDEN or (entry.kind == "assistant" and not entry.text):
            continue
        item: Json = {
            "id": f"m{position_text(entry.at)}",
            "epoch": entry.at.epoch,
            "seq": entry.at.seq,
            "kind": entry.kind,
            "at_ms": entry.created_ms,
            **_content(entry, renderer),
            **_origin(entry.origin),
        }
        yield entry.at, item


def _content(entry: EntryView, renderer: Renderer) -> Json:
    if entry.kind == "assistant":
        return {"html": renderer.html(entry.text), "text": entry.text}
    if entry.kind == "tool_call":
        text = _arguments(entry.arguments)
        return {"call_id": entry.call_id, "tool": entry.tool, "text": text}
    if entry.kind == "tool_result":
        return {
            "call_id": entry.call_id,
            "tool": entry.tool,
            "text": head_and_tail(entry.text, TOOL_CHARS),
            "is_error": entry.is_error,
        }
    return {"text": entry.text}


def _arguments(text: str) -> str:
    """A call's arguments on one line, as `name: value`; broken ones as the model wrote them."""
    try:
        values = json.loads(text or "{}")
    except ValueError:
        return text
    if not isinstance(values, dict):
        return text
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    )


def _is_new(view: EventView) -> bool:
    command = parse(view.asked)
    return view.kind == "notice" and command is not None and command.name == "new"


def _event(view: EventView, renderer: Renderer) -> Json:
    item: Json = {
        "id": f"e{view.at.seq}",
        "epoch": view.at.epoch,
        "seq": view.at.seq,
        "kind": view.kind,
        "at_ms": view.at_ms,
        **_origin(view.origin),
    }
    if view.kind in {"notice", "failed"}:
        return item | {"html": renderer.html(view.text), "text": view.text, "asked": view.asked}
    if view.kind == "approval_asked":
        html = renderer.html(view.text)
        return item | {"html": html, "text": view.text, "approval": view.approval}
    if view.kind == "approval_decided":
        return item | {"state": view.text, "approval": view.approval}
    if view.kind == "withdrawn":
        return item | {"text": view.text}
    return item | {"count": view.count}


def _origin(origin: Origin | None) -> Json:
    """Who wrote it and how; `client_msg_id` is the page's own id of a message it sent."""
    if origin is None:
        return {}
    is_ours = origin.channel == WEB_CHANNEL and origin.identity.startswith(IDENTITY_PREFIX)
    return {
        "sender": "" if is_ours else origin.sender,
        "sent_ms": origin.accepted_ms,
        "client_msg_id": origin.identity.removeprefix(IDENTITY_PREFIX) if is_ours else None,
    }
