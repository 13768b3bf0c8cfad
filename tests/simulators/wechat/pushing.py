"""How WeChat and WeCom call a program: signed requests, five seconds each, three attempts.

What the program answers, and whether it does so in time, decides whether it is asked again.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET  # only answers of the program under test are read
from xml.sax.saxutils import escape

import aiohttp

from .sealing import seal, sign, unseal
from .waiting import Bell

ATTEMPTS = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """One message or event, and the attempts at it. state: pending, acked or lost."""

    fields: dict[str, str]
    state: str = "pending"
    attempts: int = 0
    statuses: list[int | str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Account:
    """The secrets of a callback. mode: plain, compat or safe."""

    token: str
    aes_key: str
    receive_id: str
    mode: str = "plain"


def to_xml(fields: dict[str, str]) -> str:
    """The fields as the platform writes them: numbers bare, text in CDATA, its end mark split."""
    rows = []
    for name, value in fields.items():
        if value.isdigit() and name not in {"Content", "FromUserName", "EventKey"}:
            rows.append(f"<{name}>{value}</{name}>")
        else:
            safe = value.replace("]]>", "]]]]><![CDATA[>")
            rows.append(f"<{name}><![CDATA[{safe}]]></{name}>")
    return "<xml>\n" + "\n".join(rows) + "\n</xml>"


def read_xml(text: str) -> dict[str, str]:
    """The fields of an answer; ParseError when it is not well-formed, as the platform sees it."""
    return {child.tag: child.text or "" for child in ET.fromstring(text)}  # noqa: S314


class Pusher:
    """Calls one program. `on_reply` is given what a response holds for a user."""

    def __init__(
        self,
        account: Account,
        bell: Bell,
        *,
        attempt_s: float,
        on_reply: Callable[[Delivery, str], None],
        on_unavailable: Callable[[Delivery], None],
    ) -> None:
        self.account = account
        self.url = ""
        self.deliveries: list[Delivery] = []
        self.responses_to_lose = 0
        self.clock_skew_s = 0.0
        self._bell = bell
        self._attempt_s = attempt_s
        self._on_reply = on_reply
        self._on_unavailable = on_unavailable
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._paused = 0
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def push(self, fields: dict[str, str]) -> Delivery:
        """Deliver in the background, as often as needed."""
        delivery = Delivery(fields=fields)
        self.deliveries.append(delivery)
        self._spawn(delivery)
        return delivery

    def pause_between_attempts(self) -> None:
        """Make no other attempt until `go_on`."""
        self._may_go_on.clear()

    def go_on(self) -> None:
        """Make the next attempts."""
        self._may_go_on.set()

    async def wait_paused(self, timeout_s: float = 10.0) -> None:
        """Wait until an attempt has failed and the next is held back."""
        await self._bell.until(
            lambda: self._paused > 0, timeout_s=timeout_s, what=lambda: "a failed attempt"
        )

    def redeliver(self, delivery: Delivery) -> None:
        """Once more, though it was answered."""
        delivery.state = "pending"
        self._spawn(delivery)

    async def attempt(self, delivery: Delivery, url: str = "") -> bool:
        """Ask once; True = it needs no other attempt."""
        delivery.attempts += 1
        self._bell.ring()
        try:
            async with asyncio.timeout(self._attempt_s):
                status, text = await self.post(to_xml(delivery.fields), url=url)
        except (TimeoutError, aiohttp.ClientError) as error:
            delivery.statuses.append(type(error).__name__)
            return False
        delivery.statuses.append(status)
        if self.responses_to_lose:
            self.responses_to_lose -= 1
            return False
        if status != 200:
            return False
        delivery.answers.append(text)
        if text not in {"", "success"}:
            self._on_reply(delivery, self._opened(text))
        return True

    async def post(
        self,
        body: str | bytes,
        *,
        url: str = "",
        query: dict[str, str] | None = None,
        method: str = "POST",
    ) -> tuple[int, str]:
        """Send a body, signed and sealed by the account's mode unless `query` is given."""
        if query is None:
            assert isinstance(body, str)
            query, body = self.signed(body)
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        data = body.encode() if isinstance(body, str) else body
        async with self._session.request(
            method, url or self.url, params=query, data=data, allow_redirects=False
        ) as response:
            return response.status, await response.text(errors="replace")

    def signed(self, xml: str) -> tuple[dict[str, str], str]:
        """The query and the body of a request."""
        account = self.account
        stamp, nonce = str(int(time.time() + self.clock_skew_s)), str(secrets.randbelow(10**9))
        query = {"timestamp": stamp, "nonce": nonce}
        query["signature"] = sign(account.token, stamp, nonce)
        if account.mode == "plain":
            return query, xml
        encrypted = seal(xml, account.aes_key, account.receive_id)
        query["encrypt_type"] = "aes"
        query["msg_signature"] = sign(account.token, stamp, nonce, encrypted)
        part = f"<Encrypt><![CDATA[{escape(encrypted)}]]></Encrypt>"
        if account.mode == "compat":
            return query, xml.replace("</xml>", f"{part}\n</xml>")
        return query, f"<xml>\n{part}\n</xml>"

    async def wait_attempt(self, delivery: Delivery, number: int, timeout_s: float = 10.0) -> None:
        """Wait until an attempt has begun."""
        await self._bell.until(
            lambda: delivery.attempts >= number,
            timeout_s=timeout_s,
            what=lambda: f"attempt {number}; {delivery}",
        )

    async def wait_settled(self, timeout_s: float) -> None:
        """Wait until every delivery is acknowledged or given up."""
        await self._bell.until(
            lambda: all(each.state != "pending" for each in self.deliveries),
            timeout_s=timeout_s,
            what=lambda: f"all deliveries settled: {self.deliveries[-3:]}",
        )

    def _opened(self, text: str) -> str:
        account = self.account
        if account.mode == "plain":
            return text
        outer = read_xml(text)
        encrypted = outer["Encrypt"]
        wanted = sign(account.token, outer["TimeStamp"], outer["Nonce"], encrypted)
        if outer["MsgSignature"] != wanted:
            raise ValueError("the answer is not signed")
        return unseal(encrypted, account.aes_key, account.receive_id)

    def _spawn(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._deliver(delivery), name="wechat delivery")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _between_attempts(self) -> None:
        self._paused += 1
        self._bell.ring()
        await self._may_go_on.wait()
        self._paused -= 1

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            for number in range(ATTEMPTS):
                if number:
                    await self._between_attempts()
                if await self.attempt(delivery):
                    delivery.state = "acked"
                    return
        except (ET.ParseError, ValueError, KeyError):
            delivery.statuses.append("malformed")
        finally:
            if delivery.state == "pending":
                delivery.state = "lost"
                with contextlib.suppress(asyncio.CancelledError):
                    self._on_unavailable(delivery)
            self._bell.ring()
