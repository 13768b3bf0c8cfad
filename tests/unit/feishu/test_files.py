"""What a file is sent as."""

from __future__ import annotations

import json

import pytest

from adapters.feishu.files import MAX_IMAGE_BYTES, Shape, name_of, shapes_of
from clawbot.messages import OutboundFile


def file(name: str) -> OutboundFile:
    return OutboundFile(name=name, mime="text/plain", size_bytes=1, blob="x")


def kinds(name: str, data: bytes) -> list[str]:
    return [f"{shape.message}:{shape.upload}" for shape in shapes_of(file(name), data)]


PNG = b"\x89PNG\r\n\x1a\n"
WEBP = b"RIFF\0\0\0\0WEBPVP8 "


@pytest.mark.parametrize("data", [PNG, b"\xff\xd8\xff\xe0", b"GIF89a", WEBP])
def test_a_picture_is_known_by_its_bytes(data: bytes) -> None:
    assert kinds("anything", data) == ["image:image", "file:stream"]


@pytest.mark.parametrize(
    ("name", "data", "first"),
    [
        ("notes.txt", b"hi", "file:stream"),
        ("fake.png", b"<svg/>", "file:stream"),
        ("report.PDF", b"%PDF", "file:pdf"),
        ("table.xlsx", b"PK", "file:xls"),
        ("talk.opus", b"OggS" + b"\0" * 24 + b"OpusHead", "audio:opus"),
        ("music.ogg", b"OggS" + b"\0" * 24 + b"\x01vorbis", "file:stream"),
        ("film.mp4", b"\0\0\0\x18ftypmp42", "media:mp4"),
        ("film.mp4", b"no film", "file:stream"),
        ("sound.wav", b"RIFF\0\0\0\0WAVE", "file:stream"),
    ],
)
def test_what_can_be_played_is_sent_so_and_all_else_as_a_file(
    name: str, data: bytes, first: str
) -> None:
    found = kinds(name, data)
    assert found[0] == first
    assert found[-1] == "file:stream"


def test_a_large_picture_is_a_file() -> None:
    assert kinds("big.png", PNG + bytes(MAX_IMAGE_BYTES)) == ["file:stream"]


def test_a_message_names_what_was_uploaded() -> None:
    assert json.loads(Shape(message="image", upload="image").content("k")) == {"image_key": "k"}
    assert json.loads(Shape(message="audio", upload="opus").content("k")) == {"file_key": "k"}


def test_a_long_name_keeps_its_end() -> None:
    assert name_of(file("a  b.txt")) == "a b.txt"
    assert name_of(file(" ")) == "file"
    long = name_of(file("é" * 300 + ".pdf"))
    assert (len(long), long[-5:]) == (120, "….pdf")
