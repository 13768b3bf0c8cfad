"""Decrypting what people send to an AI bot."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wecom.bot_files import decrypt
from clawbot.errors import NotLoaded
from tests.simulators.wechat.sealing import seal_file

KEY = base64.b64encode(bytes(range(32))).decode()


@given(st.binary())
def test_a_file_is_decrypted_with_its_key_however_it_is_padded(data: bytes) -> None:
    assert decrypt(seal_file(data, KEY), KEY) == data
    assert decrypt(seal_file(data, KEY), KEY.rstrip("=")) == data


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"", KEY),
        (b"x" * 32, ""),
        (b"x" * 32, "short"),
        (b"x" * 32, "not base64 at all!"),
        (b"x" * 31, KEY),
        (seal_file(b"hello", KEY), base64.b64encode(b"k" * 32).decode()),
    ],
)
def test_what_cannot_be_decrypted_says_so(data: bytes, key: str) -> None:
    with pytest.raises(NotLoaded, match="cannot be decrypted"):
        decrypt(data, key)
