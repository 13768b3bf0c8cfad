"""What WeCom is sent: its own small Markdown for apps, standard Markdown for bots. Pure."""

from __future__ import annotations

from adapters.wechat.fields import clean
from adapters.wechat.outbound import measure as measure_in
from adapters.wechat.plain import PLAIN, Dialect, render

APP_LIMIT_BYTES = 2_048
BOT_LIMIT_BYTES = 20_480
PROGRESS_RESERVE_BYTES = 256
BOT_MAX_SIZE = BOT_LIMIT_BYTES - PROGRESS_RESERVE_BYTES

DIALECTS = {
    "text": PLAIN,
    # Lists, tables and code blocks are not part of it; they are written as plain text.
    "markdown": Dialect(strong="**", code="`", has_headings=True, has_links=True),
}


def render_app(markdown: str, kind: str) -> str:
    """A part as an app sends it."""
    return render(markdown, DIALECTS[kind])


def measure_app(markdown: str, kind: str) -> int:
    """UTF-8 bytes of a part as an app sends it."""
    return measure_in(markdown, DIALECTS[kind])


def render_bot(markdown: str, progress: str = "") -> str:
    """A part as a bot shows it, with a last line on what the agent is doing."""
    text = clean(markdown)
    if not progress:
        return text
    line = " ".join(clean(progress).split())
    room = BOT_LIMIT_BYTES - measure_bot(text) - len("\n\n⏳ …".encode())
    if len(line.encode()) > room:
        line = line.encode()[: max(room, 0)].decode(errors="ignore") + "…"
    return f"{text}\n\n⏳ {line}" if text else f"⏳ {line}"


def measure_bot(markdown: str) -> int:
    """UTF-8 bytes of a part as a bot shows it."""
    return len(clean(markdown).encode())
