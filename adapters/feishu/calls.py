"""How a call of the Open API is made: one session, the tenant token, pauses that Feishu asked for.

Nothing is retried but a call with a token that ended: who calls knows what may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from adapters.feishu.config import FeishuConfig
from adapters.feishu.failures import RateLimited, TokenRefused, from_answer, from_client_error
from adapters.feishu.pacing import Pacer
from adapters.feishu.token import TenantToken
from adapters.payload import Json, number_of, parse, text_of
from clawbot.errors import NotSent, OutcomeUnknown
from clawbot.ports import Clock

CALL_TIMEOUT_S = 15.0
_CONNECT_TIMEOUT_S = 5.0
_MAX_REFUSAL_BYTES = 65_536
_UPLOAD_BYTES_PER_S = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A body with a file in it. `field` is what the file is called there."""

    field: str
    data: bytes
    texts: Mapping[str, str]

    def encode(self) -> aiohttp.FormData:
        """As a body, good for one request."""
        form = aiohttp.FormData()
        for name, text in self.texts.items():
            form.add_field(name, text)
        form.add_field(
            self.field, self.data, filename="file", content_type="application/octet-stream"
        )
        return form


class Calls:
    """Makes the calls of one app. Methods raise NotSent, Rejected or OutcomeUnknown."""

    def __init__(self, config: FeishuConfig, clock: Clock) -> None:
        self._config = config
        self.pacer = Pacer(clock)
        self._token = TenantToken(clock, self._fetch_token)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    @property
    def session(self) -> aiohttp.ClientSession:
        """The one session of this account, made at first use inside the running loop."""
        if self._is_closed:
            raise NotSent("feishu: this channel is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(
                    total=CALL_TIMEOUT_S, sock_connect=_CONNECT_TIMEOUT_S
                ),
                trust_env=not self._config.is_loopback,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        self._is_closed = True
        await self._token.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(
        self,
        name: str,
        verb: str,
        path: str,
        *,
        body: Json | Form | None = None,
        query: dict[str, str] | None = None,
        chat: str = "",
    ) -> Json:
        """Call with the tenant token; once more with a fresh one where Feishu refuses the first."""
        self.pacer.check(name)
        token = await self._current_token()
        try:
            try:
                return await self.once(name, verb, path, body=body, query=query, token=token)
            except TokenRefused:
                self._token.evict(token)
                token = await self._current_token()
                return await self.once(name, verb, path, body=body, query=query, token=token)
        except TokenRefused as error:
            self._token.evict(token)
            raise NotSent(str(error)) from error
        except RateLimited as error:
            self.pacer.note(name, chat, error)
            raise

    async def _current_token(self) -> str:
        """Raises NotSent without one: whatever became of that question, the call was not made."""
        try:
            return await self._token.current()
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error

    async def once(
        self,
        name: str,
        verb: str,
        path: str,
        *,
        body: Json | Form | None = None,
        query: dict[str, str] | None = None,
        token: str = "",
    ) -> Json:
        """Call once, without a token unless it is given."""
        headers, data, patience = _encoded(body)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            async with self.session.request(
                verb,
                self._config.base_url + path,
                data=data,
                params=query,
                headers=headers,
                timeout=patience,
            ) as response:
                raw = await response.read()
                status, answered = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(name, error) from error
        answer = parse(raw)
        failure = from_answer(name, status, answered, answer)
        if failure is not None:
            raise failure
        return answer or {}

    async def load(self, name: str, path: str, query: dict[str, str], max_bytes: int) -> bytes:
        """The bytes that a path leads to, one more than `max_bytes` at most."""
        self.pacer.check(name)
        for _ in range(2):
            token = await self._current_token()
            try:
                return await self._bytes(name, path, query, token, max_bytes)
            except TokenRefused:
                self._token.evict(token)
        raise NotSent(f"feishu {name}: the token is refused")

    async def _bytes(
        self, name: str, path: str, query: dict[str, str], token: str, max_bytes: int
    ) -> bytes:
        headers = {"Authorization": f"Bearer {token}"}
        # No limit for the whole: a large file takes its time, but it must keep coming.
        patience = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=CALL_TIMEOUT_S
        )
        try:
            async with self.session.get(
                self._config.base_url + path, params=query, headers=headers, timeout=patience
            ) as response:
                is_file = response.status == 200 and response.content_type != "application/json"
                most = max_bytes + 1 if is_file else _MAX_REFUSAL_BYTES
                data = await response.content.read(most)
                while len(data) < most and not response.content.at_eof():
                    data += await response.content.read(most - len(data))
                status, answered = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(name, error) from error
        failure = None if is_file else from_answer(name, status, answered, parse(data))
        if failure is not None:
            raise failure
        return data

    @property
    def secret(self) -> str:
        """The app's secret."""
        return self._config.app_secret.get_secret_value()

    async def _fetch_token(self) -> tuple[str, float]:
        name = "tenant_access_token"
        body = {"app_id": self._config.app_id, "app_secret": self.secret}
        path = "/open-apis/auth/v3/tenant_access_token/internal"
        answer = await self.once(name, "POST", path, body=body)
        token, good_for_s = text_of(answer.get("tenant_access_token")), answer.get("expire")
        if not token:
            raise NotSent(f"feishu {name}: the answer holds no token")
        return token, float(number_of(good_for_s) or 0)


def _encoded(
    body: Json | Form | None,
) -> tuple[dict[str, str], bytes | aiohttp.FormData | None, aiohttp.ClientTimeout]:
    """The headers, the body, and how long to wait for an answer to it."""
    size = len(body.data) if isinstance(body, Form) else 0
    patience = aiohttp.ClientTimeout(
        total=CALL_TIMEOUT_S + size / _UPLOAD_BYTES_PER_S, sock_connect=_CONNECT_TIMEOUT_S
    )
    if isinstance(body, Form):
        return {}, body.encode(), patience
    headers = {"Content-Type": "application/json; charset=utf-8"}
    data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    return headers, data, patience
