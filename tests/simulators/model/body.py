"""Tolerant reading of request bodies: whatever a client sends, reading it must not fail.

A wrong shape reads as empty here; the wire rules are what reports it.
"""

from typing import Any

Json = dict[str, Any]


def object_of(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Json]:
    """The objects of a list; anything else in it is skipped."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(content: Any) -> str:
    """The text of a content value: a string, or parts that hold `text`."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in objects(content)]
    return "\n".join(part for part in parts if isinstance(part, str))
