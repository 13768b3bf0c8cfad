"""Every call to WeChat's API. Nothing is retried here but a call whose token was refused, once."""

from __future__ import annotations

import json

import aiohttp

from adapters.payload import Json, number_of, parse, text_of
from adapters.wechat.config import WechatConfig
from adapters.wechat.failures import (
    TOKEN_CODES,
    code_of,
    from_client_error,
    from_code,
    from_status,
)
from adapters.wechat.media import load, load_with_token
from adapters.wechat.tokens import Token, TokenCache
from clawbot.errors import NotLoaded, NotSent, Rejected, SendError
from clawbot.ports import Clock

CALL_TIMEOUT_S = 10.0
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
        where = f"{method} {path}"
        # Chinese must not be escaped: the platform shows \\uXXXX as it stands.
        data = None if body is None else _json(body)
        headers = {"Content-Type": "application/json; charset=utf-8"} if data else None
        url = self._base_url + path
        try:
            async with self.session.request(
                method, url, params=dict(params), data=data, headers=headers
            ) as response:
                answer = parse(await response.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(where, error) from error
        if answer is None:
            raise from_status(where, response.status)
        return answer

    async def load(self, path: str, params: Json, max_bytes: int) -> bytes:
        """A file of the API. Raises NotLoaded."""
        return await load(self.session, self._base_url + path, params, max_bytes)

    async def load_media(self, tokens: TokenCache, media_id: str, max_bytes: int) -> bytes:
        """A file that somebody sent to the account; it is kept for three days. Raises NotLoaded."""

        async def get(token: str) -> bytes:
            params = {"access_token": token, "media_id": media_id}
            return await self.load("cgi-bin/media/get", params, max_bytes)

        async def follow(url: str) -> bytes:
            return await load(self.session, url, {}, max_bytes)

        return await load_with_token(get, tokens.get, tokens.refuse, follow)


class WechatApi:
    """The API as one Official Account. Methods raise NotSent, Rejected, OutcomeUnknown or
    WindowClosed.
    """

    def __init__(self, config: WechatConfig, clock: Clock) -> None:
        self._config = config
        self._http = HttpCaller(config.api_base_url)
        self._tokens = TokenCache(clock, self._fetch_token)

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.close()

    async def prove(self) -> None:
        """Have a token: the account and its secret are right."""
        await self._tokens.get()

    async def send_text(self, open_id: str, text: str) -> None:
        """A customer-service message."""
        body = {"touser": open_id, "msgtype": "text", "text": {"content": text}}
        await self._call("cgi-bin/message/custom/send", body)

    async def show_typing(self, open_id: str, *, active: bool) -> None:
        """The sign that an answer is being written; it lasts 15 s and a message ends it."""
        command = "Typing" if active else "CancelTyping"
        body = {"touser": open_id, "command": command}
        await self._call("cgi-bin/message/custom/typing", body)

    async def download(self, media_id: str, max_bytes: int) -> bytes:
        """A file that a person sent. Raises NotLoaded."""
        if self._config.app_secret is None:
            raise NotLoaded("app_secret is not set, and WeChat gives no file without it")
        return await self._http.load_media(self._tokens, media_id, max_bytes)

    async def _call(self, path: str, body: Json) -> Json:
        answer = await self._once(path, body)
        if code_of(answer) in TOKEN_CODES:
            answer = await self._once(path, body)
        if code_of(answer):
            raise from_code(path, answer)
        return answer

    async def _once(self, path: str, body: Json) -> Json:
        token = await usable(self._tokens)
        answer = await self._http.request("POST", path, {"access_token": token}, body)
        if code_of(answer) in TOKEN_CODES:
            self._tokens.refuse(token)
        return answer

    async def _fetch_token(self, force: bool) -> Token:  # noqa: FBT001 - see Fetch
        """stable_token gives the same token to everybody; the older call makes each one's last
        token invalid.
        """
        secret = self._config.app_secret
        path = "cgi-bin/stable_token"
        answer = await self._http.request(
            "POST",
            path,
            {},
            {
                "grant_type": "client_credential",
                "appid": self._config.app_id,
                "secret": "" if secret is None else secret.get_secret_value(),
                "force_refresh": force,
            },
        )
        return token_of(path, answer)


async def usable(tokens: TokenCache) -> str:
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
