"""Text that every part downstream can hold: JSON, databases, platforms.

Pure functions of text. They know nothing of tokens, platforms or Markdown.
"""

from __future__ import annotations

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(text: str) -> str:
    """The text without NUL and lone surrogates, which JSON parsers and databases refuse."""
    if "\x00" in text:
        text = text.replace("\x00", REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 joins the halves of a pair that arrived apart; only what stays alone is replaced.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def head_and_tail(text: str, limit: int) -> str:
    """At most about `limit` characters of the text: its beginning and end, cut at line ends.

    A line in the middle says how much is left out. Two thirds of the room go to the beginning.
    """
    if len(text) <= limit:
        return text
    head = _cut_end(text[: limit * 2 // 3])
    tail = _cut_start(text[len(text) - limit // 3 :])
    left_out = len(text) - len(head) - len(tail)
    note = f"[… {left_out:,} of {len(text):,} characters are left out here …]"
    return f"{head.rstrip()}\n{note}\n{tail.lstrip()}"


def _cut_end(text: str) -> str:
    """Cut back to a line end, unless that loses more than half."""
    end = text.rfind("\n")
    return text[:end] if end > len(text) // 2 else text


def _cut_start(text: str) -> str:
    start = text.find("\n") + 1
    return text[start:] if 0 < start < len(text) // 2 else text
