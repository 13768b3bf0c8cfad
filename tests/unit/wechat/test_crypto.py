"""Signatures and ciphertext, held against an implementation that is not wechatpy's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wechat.crypto import (
    BadEnvelope,
    Envelope,
    is_fresh,
    is_signed,
    signature_of,
)
from tests.simulators.wechat.sealing import seal, sign, unseal

KEY = "MadeUpEncodingAesKey00000000000000000000000"
APP = "wx0claw000000001a"


def envelope(*receive_ids: str) -> Envelope:
    return Envelope(token="tok", aes_key=KEY, receive_ids=receive_ids or (APP,))


@given(st.text(min_size=1))
def test_what_the_platform_seals_is_opened_and_back(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert envelope().open(seal(text, KEY, APP)) == text
    sealed = envelope().seal(text, now_s=1_717_000_000)
    assert unseal(sealed.encrypt, KEY, APP) == text
    assert sealed.signature == sign("tok", sealed.timestamp, sealed.nonce, sealed.encrypt)


def test_one_envelope_opens_and_seals_again_and_again() -> None:
    reused = envelope()
    for text in ("first", "second"):
        assert reused.open(seal(text, KEY, APP)) == text
        assert unseal(reused.seal(text, now_s=1).encrypt, KEY, APP) == text


def test_an_id_behind_the_message_must_be_a_listed_one() -> None:
    sealed = seal("hello", KEY, "suite-id")
    with pytest.raises(BadEnvelope, match="InvalidAppIdException"):
        envelope().open(sealed)
    assert envelope(APP, "suite-id").open(sealed) == "hello"


@pytest.mark.parametrize(
    "junk",
    ["", "x", "====", "!!!!", "QUJD", "A" * 64, "中文", seal("x", "B" * 43, APP)],
    ids=["empty", "short", "padding", "no base64", "3 bytes", "zeros", "Chinese", "other key"],
)
def test_junk_is_refused_with_one_exception(junk: str) -> None:
    with pytest.raises(BadEnvelope):
        envelope().open(junk)


def test_a_signature_covers_every_value_in_any_order() -> None:
    assert signature_of("b", "a", "c") == signature_of("c", "b", "a")
    assert is_signed(signature_of("t", "1", "n"), "t", "1", "n")
    assert not is_signed(signature_of("t", "1", "n"), "t", "1", "m")
    assert not is_signed("", "t", "1", "n")
    assert not is_signed("é\udcff", "t", "1", "n")


@pytest.mark.parametrize(
    ("stamp", "is_good"),
    [
        ("1000", True),
        ("700", True),
        ("699", False),
        ("1301", False),
        ("", False),
        ("-5", False),
        ("10e3", False),
        ("٣", False),
        ("9" * 400, False),
    ],
)
def test_a_request_must_be_of_now(stamp: str, is_good: bool) -> None:
    assert is_fresh({"timestamp": stamp}, 1000.0) is is_good
