"""How long ago something was, for people."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(ms: int) -> str:
    """A time span in its largest unit; "now" below a second."""
    seconds = max(0, ms // 1000)
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return "now"
