"""Reads foreign JSON without trusting its types: a field of the wrong type reads as absent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

_UNSTORABLE = re.compile(r"\\u(?:0000|d[89a-f])")


def text_of(value: Any) -> str:
    """The value if it is text, else ""."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects_of(value: Any) -> list[Json]:
    """The objects of a list; anything else in it is left out."""
    return [each for each in list_of(value) if isinstance(each, dict)]


def number_of(value: Any) -> int | None:
    """The value as a whole number, also from text; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def parse(text: str | bytes) -> Json | None:
    """The JSON object in a text; None if there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def dump(value: Any) -> str:
    """JSON in ASCII, so that lone surrogates and NUL survive every database."""
    return json.dumps(value, separators=(",", ":"))


def storable(payload: Json) -> Json:
    """The same payload without lone surrogates and NUL, which no database takes as text."""
    if not _UNSTORABLE.search(dump(payload)):
        return payload
    cleaned: Json = _storable(payload)
    return cleaned


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        whole = value.replace("\x00", "").encode("utf-16", "surrogatepass")
        return whole.decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_storable(key): _storable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return value
