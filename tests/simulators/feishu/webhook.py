"""Pushes over HTTP: encrypted and signed when the app has an encrypt key. Follows no redirects."""

import base64
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from Crypto.Cipher import AES

from .feed import Delivery, Outcome
from .tenant import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What the app answered."""

    status: int
    text: str

    def json(self) -> Json | None:
        """The body as a JSON object, else None."""
        try:
            body = json.loads(self.text)
        except json.JSONDecodeError:
            return None
        return body if isinstance(body, dict) else None


def encrypt(plain: bytes, key: str, iv: bytes = b"") -> str:
    """The `encrypt` field: base64 of IV and AES-256-CBC under SHA256(key), PKCS7."""
    iv = iv or os.urandom(16)
    padding = 16 - len(plain) % 16
    cipher = AES.new(hashlib.sha256(key.encode()).digest(), AES.MODE_CBC, iv)
    return base64.b64encode(iv + cipher.encrypt(plain + bytes([padding]) * padding)).decode()


class Webhook:
    """The HTTP side of Feishu; a `Transport`."""

    def __init__(
        self,
        url: str,
        *,
        encrypt_key: str,
        token: str,
        ack_timeout_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._ack_timeout_s = ack_timeout_s
        self._token = token
        self._now = now
        self.url = url
        self.encrypt_key = encrypt_key
        self.clock_skew_s = 0.0

    async def close(self) -> None:
        """Close the connections to the app."""
        await self._session.close()

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Post once; 200 is an acknowledgement."""
        delivery.attempts += 1
        body = delivery.raw or self.seal(json.dumps(delivery.payload).encode())
        try:
            answer = await self.post(body)
        except TimeoutError:
            return Outcome(acked=False, reason="timeout")
        except aiohttp.ClientError:
            return Outcome(acked=False, reason="connection_failed")
        if answer.status == 200:
            return Outcome(acked=True, answer=answer.json())
        return Outcome(acked=False, reason=f"http {answer.status}")

    def seal(self, plain: bytes) -> bytes:
        """The body for a payload."""
        if not self.encrypt_key:
            return plain
        return json.dumps({"encrypt": encrypt(plain, self.encrypt_key)}).encode()

    async def post(
        self, body: bytes, *, signature: str | None = None, signed: bool = True
    ) -> HttpAnswer:
        """Post any bytes, signed, with another signature, or without one."""
        headers = self._signed(body, self.encrypt_key) if self.encrypt_key and signed else {}
        return await self._post(
            body, headers | ({"X-Lark-Signature": signature} if signature else {})
        )

    async def post_old_callback(self, callback: Json, *, token: str = "") -> HttpAnswer:
        """Post a card callback of the old kind: flat, in clear text, signed in its own way."""
        body = json.dumps(callback).encode()
        return await self._post(body, self._signed(body, token or self._token, hashlib.sha1))

    def _signed(
        self, body: bytes, secret: str, digest: Callable[[bytes], Any] = hashlib.sha256
    ) -> dict[str, str]:
        stamp, nonce = str(int(self._now() + self.clock_skew_s)), secrets.token_hex(8)
        return {
            "X-Lark-Request-Timestamp": stamp,
            "X-Lark-Request-Nonce": nonce,
            "X-Lark-Signature": digest(f"{stamp}{nonce}{secret}".encode() + body).hexdigest(),
        }

    async def _post(self, body: bytes, headers: dict[str, str]) -> HttpAnswer:
        headers = {"Content-Type": "application/json; charset=utf-8", **headers}
        async with self._session.post(
            self.url,
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._ack_timeout_s),
        ) as response:
            return HttpAnswer(status=response.status, text=await response.text(errors="replace"))

    async def verify_url(self) -> bool:
        """The handshake, which Feishu does not sign: does the app return the challenge?"""
        challenge = secrets.token_urlsafe(24)
        body = {"challenge": challenge, "token": self._token, "type": "url_verification"}
        answer = await self.post(self.seal(json.dumps(body).encode()), signed=False)
        return answer.status == 200 and (answer.json() or {}).get("challenge") == challenge
