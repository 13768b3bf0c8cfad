"""What bytes of a file are as text, and back; pure."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_SIGNATURES = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive or Office document",
    b"\x1f\x8b": "a gzip archive",
    b"\x7fELF": "a program",
    codecs.BOM_UTF16_LE: "UTF-16 text",
    codecs.BOM_UTF16_BE: "UTF-16 text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """A whole file as text that becomes the same bytes again, whatever they are.

    mark: the bytes before the text (a byte order mark).
    """

    text: str
    encoding: str
    mark: bytes = b""

    def with_text(self, text: str) -> bytes:
        """The bytes of the file with another text in it."""
        if self.encoding == "utf-8":
            return self.mark + text.encode(self.encoding, "surrogateescape")
        return self.mark + text.encode(self.encoding)


def whole_text(raw: bytes) -> FileText:
    """The text of a file; bytes that are no text in any encoding known here keep their places."""
    mark = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    body = raw[len(mark) :]
    for encoding in ("utf-8", "gb18030"):
        try:
            text = body.decode(encoding)
            if encoding == "utf-8" or text.encode(encoding) == body:
                return FileText(text=text, encoding=encoding, mark=mark)
        except UnicodeError:
            continue
    return FileText(text=body.decode("utf-8", "surrogateescape"), encoding="utf-8", mark=mark)


def binary_kind(sample: bytes) -> str:
    """What the beginning of a file says that it is, if that is no text; else ""."""
    for signature, kind in _SIGNATURES.items():
        if sample.startswith(signature):
            return kind
    return "a binary file" if b"\x00" in sample else ""


def decode_slice(raw: bytes) -> tuple[str, str, int]:
    """The text, the encoding if it is not UTF-8, and how many of the bytes it is: an incomplete
    character at the end is left out. What cannot be decoded is replaced.
    """
    size = len(raw)
    raw = raw.removeprefix(codecs.BOM_UTF8)
    for encoding in ("utf-8", "gb18030"):
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            text = decoder.decode(raw)
        except UnicodeDecodeError:
            continue
        left = len(decoder.getstate()[0])
        return text, "" if encoding == "utf-8" else encoding.upper(), size - left
    return raw.decode("utf-8", "replace"), "an unknown encoding, in part replaced", size
