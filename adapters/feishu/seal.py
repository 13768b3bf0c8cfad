"""How Feishu signs and encrypts its requests. Pure: no network, no clock.

Source: open.feishu.cn, "Encryption strategy" of events and "Card callback security".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

from Crypto.Cipher import AES

_BLOCK = AES.block_size


class BadCiphertext(Exception):
    """The body was not encrypted with this key."""


def decrypt(encrypted: str, key: str) -> bytes:
    """The plain text of an `encrypt` field: base64 of IV and AES-256-CBC under SHA256(key)."""
    try:
        raw = base64.b64decode(encrypted, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadCiphertext("not base64") from error
    if len(raw) < 2 * _BLOCK or len(raw) % _BLOCK:
        raise BadCiphertext("not whole blocks")
    cipher = AES.new(hashlib.sha256(key.encode()).digest(), AES.MODE_CBC, raw[:_BLOCK])
    plain = cipher.decrypt(raw[_BLOCK:])
    padding = plain[-1]
    if not 1 <= padding <= _BLOCK or plain[-padding:] != bytes([padding]) * padding:
        raise BadCiphertext("wrong key")
    return plain[:-padding]


def is_signed(headers: Mapping[str, str], body: bytes, encrypt_key: str) -> bool:
    """Whether these bytes carry the signature of an event: SHA-256 over timestamp, nonce, key and
    body. `headers` in lower case.
    """
    return _matches(headers, hashlib.sha256(_head(headers) + encrypt_key.encode() + body))


def is_signed_callback(headers: Mapping[str, str], body: bytes, verification_token: str) -> bool:
    """As `is_signed`, for old card callbacks: SHA-1 with the verification token."""
    head = _head(headers) + verification_token.encode()
    return _matches(headers, hashlib.sha1(head + body, usedforsecurity=False))


def is_same(given: str, expected: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def _head(headers: Mapping[str, str]) -> bytes:
    names = ("x-lark-request-timestamp", "x-lark-request-nonce")
    return "".join(headers.get(name, "") for name in names).encode("utf-8", "surrogateescape")


def _matches(headers: Mapping[str, str], digest: hashlib._Hash) -> bool:
    given = headers.get("x-lark-signature", "")
    return hmac.compare_digest(
        given.encode("utf-8", "surrogateescape"), digest.hexdigest().encode()
    )
