"""The Events API over HTTP: signed posts to the app's request URLs, with Slack's retry headers.

Slash commands and interactions travel as signed forms. Never follows redirects.
"""

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp

from .feed import Delivery, Feed, Outcome
from .workspace import Json

FORM = "application/x-www-form-urlencoded"


@dataclass(slots=True, kw_only=True)
class RequestUrls:
    """Where the app listens; one URL serves all three unless told otherwise."""

    events: str
    commands: str
    interactive: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What the app answered."""

    status: int
    text: str
    no_retry: bool = False

    def json(self) -> Json | None:
        """The body as a JSON object, else None."""
        try:
            body = json.loads(self.text)
        except json.JSONDecodeError:
            return None
        return body if isinstance(body, dict) else None


class SignedHttp:
    """The HTTP side of Slack; a `Transport`."""

    def __init__(
        self, feed: Feed, urls: RequestUrls, *, signing_secret: str, ack_timeout_s: float
    ) -> None:
        self._feed = feed
        self._signing_secret = signing_secret
        self._ack_timeout_s = ack_timeout_s
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self.urls = urls
        self.clock_skew_s = 0.0

    async def close(self) -> None:
        """Close the connections to the app."""
        await self._session.close()

    async def attempt(self, delivery: Delivery, number: int, reason: str) -> Outcome:
        """Post once; any 2xx is an ack."""
        retry = {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason}
        url, content_type, body = self._request(delivery)
        delivery.attempts += 1
        try:
            answer = await self.post(
                url, body, content_type=content_type, headers=retry if number else {}
            )
        except TimeoutError:
            return Outcome(acked=False, reason="http_timeout")
        except aiohttp.ClientError:
            return Outcome(acked=False, reason="connection_failed")
        if 200 <= answer.status < 300:
            said = answer.json()
            if said is None and delivery.kind == "slash_commands" and answer.text:
                said = {"text": answer.text}  # a plain body is an answer, too
            self._feed.ack(delivery, said)
            return Outcome(acked=True)
        reason = "too_many_redirects" if 300 <= answer.status < 400 else "http_error"
        return Outcome(acked=False, reason=reason, retry=not answer.no_retry)

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        signature: str | None = None,
    ) -> HttpAnswer:
        """Post any bytes, signed (or with the given signature); for junk and clock skew too."""
        timestamp = str(int(time.time() + self.clock_skew_s))
        head = {
            "Content-Type": content_type,
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": signature or self.sign(timestamp, body),
            **(headers or {}),
        }
        async with self._session.post(
            url,
            data=body,
            headers=head,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._ack_timeout_s),
        ) as response:
            return HttpAnswer(
                status=response.status,
                text=await response.text(errors="replace"),
                no_retry=response.headers.get("X-Slack-No-Retry") == "1",
            )

    async def verify_url(self, verification_token: str) -> bool:
        """The url_verification handshake: does the app return the challenge?"""
        challenge = secrets.token_urlsafe(24)
        body = {"token": verification_token, "challenge": challenge, "type": "url_verification"}
        answer = await self.post(self.urls.events, json.dumps(body).encode())
        echoed = (answer.json() or {}).get("challenge", answer.text)
        return answer.status == 200 and echoed == challenge

    def sign(self, timestamp: str, body: bytes) -> str:
        """Slack's v0 signature of a body."""
        base = b"v0:" + timestamp.encode() + b":" + body
        digest = hmac.new(self._signing_secret.encode(), base, hashlib.sha256).hexdigest()
        return f"v0={digest}"

    def _request(self, delivery: Delivery) -> tuple[str, str, bytes]:
        match delivery.kind:
            case "events_api":
                return self.urls.events, "application/json", json.dumps(delivery.payload).encode()
            case "slash_commands":
                return self.urls.commands, FORM, urlencode(delivery.payload).encode()
            case _:
                form = {"payload": json.dumps(delivery.payload)}
                return self.urls.interactive, FORM, urlencode(form).encode()
