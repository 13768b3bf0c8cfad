"""What a WeCom app asks of the API."""

from __future__ import annotations

from adapters.payload import Json, text_of
from adapters.wechat.calls import AccountCaller, HttpCaller, token_of
from adapters.wechat.files import Upload
from adapters.wechat.tokens import Token, TokenCache
from adapters.wecom.config import WecomConfig
from clawbot.errors import Rejected
from clawbot.ports import ChangeNote, Clock

CHECK_INTERVAL_S = 1_800


class WecomApi:
    """The API as one app. Methods raise NotSent, Rejected or OutcomeUnknown."""

    def __init__(self, config: WecomConfig, clock: Clock, change: ChangeNote) -> None:
        self._config = config
        self._http = HttpCaller(config.api_base_url)
        self._secret = config.secret.get_secret_value()
        account = f"{config.corp_id}/{self._secret}"
        self.tokens = TokenCache(clock, change, account, self._fetch_token)
        self._calls = AccountCaller(self._http, self.tokens)

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.close()

    async def prove(self) -> None:
        """Have a token: the company and the app's secret are right."""
        await self._calls.prove()

    async def send(self, user_id: str, kind: str, content: Json, *, is_checked: bool) -> str:
        """message/send to one member; returns the message's id.

        is_checked: WeCom drops the message if it took the same one within the interval.
        """
        body = {
            "touser": user_id,
            "agentid": self._config.agent_id,
            "msgtype": kind,
            kind: content,
            "enable_duplicate_check": int(is_checked),
            "duplicate_check_interval": CHECK_INTERVAL_S,
        }
        path = "cgi-bin/message/send"
        answer = await self._calls.post(path, body)
        if text_of(answer.get("invaliduser")):
            raise Rejected(f"{path}: no such member of the app's scope", code="invaliduser")
        return text_of(answer.get("msgid"))

    async def upload(self, file: Upload) -> str:
        """Hand over a file; returns the id by which it can be sent for three days."""
        return await self._calls.upload(file)

    async def download(self, media_id: str, max_bytes: int) -> bytes:
        """A file that a member sent. Raises NotLoaded."""
        return await self._calls.load_media(media_id, max_bytes)

    async def _fetch_token(self, force: bool) -> Token:  # noqa: FBT001 - see Fetch
        """The call gives the same token until its end; there is no way to insist on another."""
        del force
        path = "cgi-bin/gettoken"
        params = {"corpid": self._config.corp_id, "corpsecret": self._secret}
        return token_of(path, await self._http.request("GET", path, params, None))
