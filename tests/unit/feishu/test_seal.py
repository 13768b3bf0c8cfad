"""Feishu's encryption and signatures, against its published example and the SDK."""

from __future__ import annotations

import hashlib

import pytest

from adapters.feishu.seal import BadCiphertext, decrypt, is_same, is_signed, is_signed_callback
from tests.simulators.feishu.webhook import encrypt


def test_the_example_of_feishus_documentation_is_decrypted() -> None:
    sealed = "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="
    assert decrypt(sealed, "test key") == b"hello world"


def test_what_was_sealed_with_a_key_is_opened_with_it_and_with_no_other() -> None:
    sealed = encrypt(b'{"a": 1}', "key")
    assert decrypt(sealed, "key") == b'{"a": 1}'
    with pytest.raises(BadCiphertext):
        decrypt(encrypt(b"x", "key", iv=bytes(16)), "another key")


@pytest.mark.parametrize("sealed", ["", "AAAA", "@@@", "A" * 20, "你好", "QUFB" * 11])
def test_what_is_no_ciphertext_is_told_apart(sealed: str) -> None:
    with pytest.raises(BadCiphertext):
        decrypt(sealed, "key")


def test_a_signature_covers_time_nonce_key_and_body() -> None:
    headers = {"x-lark-request-timestamp": "1", "x-lark-request-nonce": "n"}
    good = headers | {"x-lark-signature": hashlib.sha256(b"1nkeybody").hexdigest()}
    assert is_signed(good, b"body", "key")
    assert not is_signed(good, b"bodY", "key")
    assert not is_signed(good, b"body", "kez")
    assert not is_signed(good | {"x-lark-request-nonce": "m"}, b"body", "key")
    assert not is_signed(headers, b"body", "key")
    assert not is_signed(headers | {"x-lark-signature": "\udcff"}, b"body", "key")


def test_an_old_callback_is_signed_with_the_token() -> None:
    headers = {"x-lark-request-timestamp": "1", "x-lark-request-nonce": "n"}
    digest = hashlib.sha1(b"1ntokenbody", usedforsecurity=False).hexdigest()
    assert is_signed_callback(headers | {"x-lark-signature": digest}, b"body", "token")
    assert not is_signed_callback(headers | {"x-lark-signature": digest}, b"body", "other")


def test_secrets_are_compared_whole() -> None:
    assert is_same("token", "token")
    assert not is_same("", "token")
    assert not is_same("\ud800", "token")
