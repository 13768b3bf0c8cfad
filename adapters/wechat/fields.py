"""Reads a callback's body into its fields, XML or JSON by its content; saves what can be saved.

Clients send characters that XML does not allow, and servers pass them on; such a body is read all
the same where its fields can be told apart. A document type is never read: nothing legitimate has
one, and it is the way to entities.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any
from xml.parsers.expat import ExpatError

import xmltodict  # type: ignore[import-untyped]

from adapters import payload
from adapters.payload import Json

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE = re.compile(r"&#(?:x([0-9A-Fa-f]{1,6})|([0-9]{1,7}));")
_HALVES = re.compile(
    r"&#(?:x[dD][89aAbB][0-9A-Fa-f]{2}|5[0-9]{4});&#(?:x[dD][c-fC-F]\w{2}|5[0-9]{4});"
)
_DOCTYPE = re.compile(
    r"\s*(?:<\?xml.*?\?>)?\s*(?:<!--.*?-->\s*)*<!DOCTYPE", re.DOTALL | re.IGNORECASE
)
_ROOT = re.compile(r"<xml\b[^>]*>(.*)</xml\s*>", re.DOTALL)
_FIELD = re.compile(
    r"<([A-Za-z_][\w.]*)\s*>(?:\s*<!\[CDATA\[(.*?)\]\]>\s*|(.*?))</\1\s*>", re.DOTALL
)


class UnreadableBody(Exception):
    """The body is neither XML nor JSON from which fields can be told."""


def clean(text: str) -> str:
    """The text without characters that neither XML nor a database takes."""
    return _FORBIDDEN.sub("", text)


def read_body(body: str) -> Json:
    """The fields of a body. Raise UnreadableBody."""
    text = body.lstrip("\ufeff \t\r\n")
    if text.startswith("{"):
        found = payload.parse(text)
        if found is None:
            raise UnreadableBody("broken JSON")
        return payload.storable(found)
    return _read_xml(_without_bad_references(clean(text)))


def text_field(fields: Mapping[str, Any], name: str) -> str:
    """A field as text, as it stands; "" when it is missing or no single value.

    A repeated field gives its first value, a number its digits.
    """
    value = fields.get(name)
    if isinstance(value, list):
        value = next((each for each in value if each), None)
    if isinstance(value, dict):
        value = value.get("#text")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return payload.text_of(value)


def _read_xml(text: str) -> Json:
    if _DOCTYPE.match(text):
        raise UnreadableBody("a document type")
    try:
        document = xmltodict.parse(text, strip_whitespace=False)
    except ValueError as error:  # what xmltodict says of entities
        raise UnreadableBody("entities") from error
    except ExpatError as error:
        return _salvage(text, error)
    root = next(iter(document.values()), None)
    if not isinstance(root, dict):
        raise UnreadableBody("no fields")
    return root


def _salvage(text: str, error: ExpatError) -> Json:
    """The fields of an XML that is broken inside them: each runs to its own closing tag.

    A field that is cut off is left out; text inside one field is never taken for another.
    """
    root = _ROOT.search(text)
    if root is None:
        raise UnreadableBody(str(error)) from error
    fields: dict[str, str] = {}
    for match in _FIELD.finditer(root[1]):
        name, literal, escaped = match[1], match[2], match[3]
        value = literal if literal is not None else unescape(escaped)
        fields.setdefault(name, clean(value))
    return fields


def _without_bad_references(text: str) -> str:
    """Drop references to characters that are not allowed, outside of CDATA only.

    Some clients refer to an emoji by its two UTF-16 halves; these are put together.
    """
    if "&#" not in text:
        return text
    pieces = re.split(r"(<!\[CDATA\[.*?\]\]>)", text, flags=re.DOTALL)
    return "".join(
        piece if index % 2 else _REFERENCE.sub(_reference, _HALVES.sub(_whole, piece))
        for index, piece in enumerate(pieces)
    )


def _whole(match: re.Match[str]) -> str:
    first, second = (_code(half) for half in _REFERENCE.finditer(match[0]))
    if not (0xD800 <= first <= 0xDBFF and 0xDC00 <= second <= 0xDFFF):
        return match[0]
    return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))


def _code(match: re.Match[str]) -> int:
    return int(match[1], 16) if match[1] else int(match[2])


def _reference(match: re.Match[str]) -> str:
    code = _code(match)
    if code > 0x10FFFF or not clean(chr(code)):
        return ""
    return match[0]
