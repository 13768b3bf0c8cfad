"""Signatures and ciphertext of Tencent's callbacks, as WeChat and WeCom share them. No network.

wechatpy does the arithmetic. What it leaves out is here: a comparison in constant time, the age of
a timestamp, several acceptable receive ids, and one exception for all that a peer can send.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wechatpy.crypto import PrpCrypto  # type: ignore[import-untyped]
from wechatpy.exceptions import WeChatException  # type: ignore[import-untyped]
from wechatpy.utils import WeChatSigner  # type: ignore[import-untyped]

WINDOW_S = 300
"""How far a request's timestamp may be from our clock. The platform names no limit."""


class BadEnvelope(Exception):
    """The ciphertext is not for us, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """An encrypted answer and what signs it."""

    encrypt: str
    signature: str
    timestamp: str
    nonce: str

    def as_xml(self) -> str:
        """The body of a response, for WeChat and WeCom apps."""
        return (
            f"<xml>\n<Encrypt><![CDATA[{self.encrypt}]]></Encrypt>\n"
            f"<MsgSignature><![CDATA[{self.signature}]]></MsgSignature>\n"
            f"<TimeStamp>{self.timestamp}</TimeStamp>\n"
            f"<Nonce><![CDATA[{self.nonce}]]></Nonce>\n</xml>"
        )


def signature_of(*values: str) -> str:
    """SHA-1 over the sorted values, joined: the platform's signature scheme."""
    signer = WeChatSigner()
    signer.add_data(*(value.encode("utf-8", "surrogateescape") for value in values))
    return str(signer.signature)


def is_signed(given: str, *values: str) -> bool:
    """Whether `given` signs the values."""
    expected = signature_of(*values)
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))


def is_fresh(query: Mapping[str, str], now_s: float) -> bool:
    """Whether the request's timestamp is a number near the present time."""
    timestamp = query.get("timestamp", "")
    if not timestamp.isascii() or not timestamp.isdigit():
        return False
    return abs(now_s - int(timestamp[:20])) <= WINDOW_S


class Envelope:
    """Opens and seals the ciphertext of one account.

    receive_ids: what may stand behind the message inside the ciphertext (the app id, corp id or
    suite id); the first one is used to seal. A robot's is "".
    """

    def __init__(self, *, token: str, aes_key: str, receive_ids: Sequence[str]) -> None:
        self._token = token
        self._key = base64.b64decode(aes_key + "=")
        self._receive_ids = tuple(receive_ids)

    def is_signed(self, query: Mapping[str, str], encrypted: str) -> bool:
        """Whether `msg_signature` signs the ciphertext."""
        stamp, nonce = query.get("timestamp", ""), query.get("nonce", "")
        return is_signed(query.get("msg_signature", ""), self._token, stamp, nonce, encrypted)

    def open(self, encrypted: str) -> str:
        """Decrypt. Raise BadEnvelope."""
        cause: Exception | None = None
        for receive_id in self._receive_ids:
            try:
                return str(self._cipher().decrypt(encrypted, receive_id))
            except (
                WeChatException,
                ValueError,  # base64, block size, UTF-8
                struct.error,
                LookupError,
                TypeError,
            ) as error:
                cause = error
        kind = type(cause).__name__
        raise BadEnvelope(
            f"the ciphertext cannot be opened ({kind}); see that encoding_aes_key is this "
            "account's and that its receive id is listed"
        ) from cause

    def _cipher(self) -> Any:
        """A cipher for one message: it chains on from what it has worked on before."""
        return PrpCrypto(self._key)

    def seal(self, text: str, *, now_s: int) -> Sealed:
        """Encrypt and sign an answer."""
        timestamp, nonce = str(now_s), str(secrets.randbelow(10**10))
        encrypted = self._cipher().encrypt(text, self._receive_ids[0]).decode("ascii")
        return Sealed(
            encrypt=encrypted,
            signature=signature_of(self._token, timestamp, nonce, encrypted),
            timestamp=timestamp,
            nonce=nonce,
        )
