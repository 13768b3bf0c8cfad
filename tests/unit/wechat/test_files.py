"""Which files go out as what."""

from __future__ import annotations

import pytest

from adapters.wechat.files import BOT_KINDS, OFFICIAL_KINDS, WECOM_KINDS, Kinds, upload_of
from clawbot.errors import Rejected
from clawbot.messages import OutboundFile

MB = 1024 * 1024


def file_of(name: str, size: int = 100) -> tuple[OutboundFile, bytes]:
    return OutboundFile(name=name, mime="x/y", size_bytes=size, blob="b"), b"x" * size


@pytest.mark.parametrize(
    ("kinds", "name", "size", "kind"),
    [
        (OFFICIAL_KINDS, "a.PNG", 10 * MB, "image"),
        (OFFICIAL_KINDS, "a.gif", 100, "image"),
        (OFFICIAL_KINDS, "a.mp3", 2 * MB, "voice"),
        (OFFICIAL_KINDS, "a.mp4", 10 * MB, "video"),
        (WECOM_KINDS, "a.gif", 100, "file"),
        (WECOM_KINDS, "a.jpg", 10 * MB + 1, "file"),
        (WECOM_KINDS, "a.mp3", 100, "file"),
        (WECOM_KINDS, "Makefile", 20 * MB, "file"),
        (BOT_KINDS, "a.jpg", 2 * MB, "image"),
        (BOT_KINDS, "a.jpg", 2 * MB + 1, "file"),
    ],
)
def test_a_file_goes_as_the_first_kind_that_takes_it(
    kinds: Kinds, name: str, size: int, kind: str
) -> None:
    assert upload_of(*file_of(name, size), kinds).kind == kind


@pytest.mark.parametrize(
    ("kinds", "name", "size"),
    [
        (OFFICIAL_KINDS, "a.pdf", 100),
        (OFFICIAL_KINDS, "a.png", 10 * MB + 1),
        (OFFICIAL_KINDS, "png", 100),
        (WECOM_KINDS, "a.zip", 20 * MB + 1),
        (WECOM_KINDS, "a.txt", 5),
    ],
)
def test_what_nothing_shows_is_refused(kinds: Kinds, name: str, size: int) -> None:
    with pytest.raises(Rejected):
        upload_of(*file_of(name, size), kinds)


def test_a_name_cannot_leave_its_header() -> None:
    assert upload_of(*file_of('计划 "a"\r\nX: /y.pdf'), WECOM_KINDS).name == "计划 _a___X: _y.pdf"
