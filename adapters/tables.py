"""A Markdown table as aligned plain text, for platforms that show none."""

from __future__ import annotations

import unicodedata


def render_table(rows: list[list[str]]) -> str:
    """Pad the columns; the first row is the heading."""
    columns = max((len(row) for row in rows), default=0)
    full = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(_width(row[index]) for row in full) for index in range(columns)]
    lines = [" | ".join(map(_pad, row, widths)).rstrip() for row in full]
    if len(lines) > 1:
        lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - _width(cell))


def _width(text: str) -> int:
    """Columns of a terminal: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
