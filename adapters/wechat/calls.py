"""HTTP calls to the platforms' APIs, for WeChat and WeCom: JSON, files, and the account's token.

Nothing is retried here but a call whose token was refused, once.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import aiohttp

from adapters.payload import Json, number_of, parse, text_of
from adapters.wechat.failures import (
    TOKEN_CODES,
    code_of,
    from_client_error,
    from_code,
    from_status,
)
from adapters.wechat.files import Upload
from adapters.wechat.media import load, load_with_token
from adapters.wechat.tokens import Token, TokenCache
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError

CALL_TIMEOUT_S = 10.0
UPLOAD_BYTES_PER_S = 250_000
"""The slowest line on which an upload is waited for."""

_CONNECT_TIMEOUT_S = 5.0
_NO_TOKEN_PAUSE_S = 60.0


class HttpCaller:
    """JSON in, JSON out, on one session; the failures are classified."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """Made at first use inside the running loop."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=_CONNECT_TIMEOUT_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        return self._session

    async def request(self, method: str, path: str, params: Json, body: Json | None) -> Json:
        """One call; its answer as it is. Raises NotSent or OutcomeUnknown when there is none."""
        # Chinese must not be escaped: the platform shows \\uXXXX as it stands.
        data = None if body is None else _json(body)
        headers = {"Content-Type": "application/json; charset=utf-8"} if data else None
        return await self._request(method, path, params, data, headers, CALL_TIMEOUT_S)

    async def upload(self, path: str, params: Json, file: Upload) -> Json:
        """Hand over a file that no message refers to yet: it may be done again, so every failure
        is NotSent.
        """
        # Its name must stand there as it is: the platforms do not read the escaped form.
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("media", file.data, filename=file.name, content_type=file.mime)
        timeout_s = CALL_TIMEOUT_S + len(file.data) / UPLOAD_BYTES_PER_S
        try:
            return await self._request("POST", path, params, form, None, timeout_s)
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error

    async def load(self, path: str, params: Json, max_bytes: int) -> bytes:
        """A file of the API. Raises NotLoaded."""
        return await load(self.session, self._base_url + path, params, max_bytes)

    async def _request(
        self,
        method: str,
        path: str,
        params: Json,
        data: bytes | aiohttp.FormData | None,
        headers: dict[str, str] | None,
        timeout_s: float,
    ) -> Json:
        where = f"{method} {path}"
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        try:
            async with self.session.request(
                method,
                self._base_url + path,
                params=dict(params),
                data=data,
                headers=headers,
                timeout=timeout,
            ) as response:
                answer = parse(await response.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(where, error) from error
        if answer is None:
            raise from_status(where, response.status)
        return answer


class AccountCaller:
    """Calls with an account's token. Methods raise NotSent, Rejected, OutcomeUnknown or
    WindowClosed.
    """

    def __init__(self, http: HttpCaller, tokens: TokenCache) -> None:
        self._http = http
        self._tokens = tokens

    async def prove(self) -> None:
        """Have a token: the account and its secret are right."""
        await self._tokens.get()

    async def post(self, path: str, body: Json) -> Json:
        """A call; its answer, which is no error."""
        return await self._with_token(
            path, lambda token: self._http.request("POST", path, {"access_token": token}, body)
        )

    async def upload(self, file: Upload) -> str:
        """media/upload: the id under which a message can show the file, for three days."""
        path = "cgi-bin/media/upload"
        answer = await self._with_token(
            path,
            lambda token: self._http.upload(path, {"access_token": token, "type": file.kind}, file),
        )
        media_id = text_of(answer.get("media_id"))
        if not media_id:
            raise NotSent(f"{path}: the answer holds no media_id")
        return media_id

    async def load_media(self, media_id: str, max_bytes: int) -> bytes:
        """A file that somebody sent to the account; it is kept for three days. Raises NotLoaded."""

        async def get(token: str) -> bytes:
            params = {"access_token": token, "media_id": media_id}
            return await self._http.load("cgi-bin/media/get", params, max_bytes)

        async def follow(url: str) -> bytes:
            return await load(self._http.session, url, {}, max_bytes)

        return await load_with_token(get, self._tokens.get, self._tokens.refuse, follow)

    async def _with_token(self, path: str, call: Callable[[str], Awaitable[Json]]) -> Json:
        answer = await self._once(call)
        if code_of(answer) in TOKEN_CODES:
            answer = await self._once(call)
        if code_of(answer):
            raise from_code(path, answer)
        return answer

    async def _once(self, call: Callable[[str], Awaitable[Json]]) -> Json:
        token = await _usable(self._tokens)
        answer = await call(token)
        if code_of(answer) in TOKEN_CODES:
            self._tokens.refuse(token)
        return answer


async def _usable(tokens: TokenCache) -> str:
    """The token for a call. Without one nothing is sent, whatever the reason: NotSent."""
    try:
        return await tokens.get()
    except NotSent:
        raise
    except SendError as error:
        raise NotSent(f"no token: {error}", retry_after_s=_NO_TOKEN_PAUSE_S) from error


def token_of(path: str, answer: Json) -> Token:
    """The token in an answer. Raises what its error code means; here 40001 is a wrong secret."""
    if code_of(answer) in TOKEN_CODES:
        raise Rejected(f"{path}: {code_of(answer)}", code=str(code_of(answer)))
    if code_of(answer):
        raise from_code(path, answer)
    value = text_of(answer.get("access_token"))
    if not value:
        raise NotSent(f"{path}: the answer holds no token")
    return Token(value=value, lasts_s=float(number_of(answer.get("expires_in")) or 0))


def _json(body: Json) -> bytes:
    return json.dumps(dict(body), ensure_ascii=False).encode("utf-8", "replace")
