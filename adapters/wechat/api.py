"""What an Official Account asks of WeChat's API."""

from __future__ import annotations

from adapters.wechat.calls import AccountCaller, HttpCaller, token_of
from adapters.wechat.config import WechatConfig
from adapters.wechat.files import Upload
from adapters.wechat.tokens import Token, TokenCache
from clawbot.errors import NotLoaded
from clawbot.ports import ChangeNote, Clock


class WechatApi:
    """The API as one Official Account. Methods raise NotSent, Rejected, OutcomeUnknown or
    WindowClosed.
    """

    def __init__(self, config: WechatConfig, clock: Clock, change: ChangeNote) -> None:
        self._config = config
        self._http = HttpCaller(config.api_base_url)
        self._secret = "" if config.app_secret is None else config.app_secret.get_secret_value()
        account = f"{config.app_id}/{self._secret}"
        self.tokens = TokenCache(clock, change, account, self._fetch_token)
        self._calls = AccountCaller(self._http, self.tokens)

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.close()

    async def prove(self) -> None:
        """Have a token: the account and its secret are right."""
        await self._calls.prove()

    async def send_text(self, open_id: str, text: str) -> None:
        """A customer-service message."""
        body = {"touser": open_id, "msgtype": "text", "text": {"content": text}}
        await self._calls.post("cgi-bin/message/custom/send", body)

    async def upload(self, file: Upload) -> str:
        """Hand over a file; returns the id by which it can be sent for three days."""
        return await self._calls.upload(file)

    async def send_file(self, open_id: str, kind: str, media_id: str, title: str) -> None:
        """A customer-service message that is a file; only videos show a title."""
        content = {"media_id": media_id} | ({"title": title} if kind == "video" else {})
        body = {"touser": open_id, "msgtype": kind, kind: content}
        await self._calls.post("cgi-bin/message/custom/send", body)

    async def show_typing(self, open_id: str, *, active: bool) -> None:
        """The sign that an answer is being written; it lasts 15 s and a message ends it."""
        command = "Typing" if active else "CancelTyping"
        body = {"touser": open_id, "command": command}
        await self._calls.post("cgi-bin/message/custom/typing", body)

    async def download(self, media_id: str, max_bytes: int) -> bytes:
        """A file that a person sent. Raises NotLoaded."""
        if self._config.app_secret is None:
            raise NotLoaded("app_secret is not set, and WeChat gives no file without it")
        return await self._calls.load_media(media_id, max_bytes)

    async def _fetch_token(self, force: bool) -> Token:  # noqa: FBT001 - see Fetch
        """stable_token gives the same token to everybody; the older call makes each one's last
        token invalid.
        """
        path = "cgi-bin/stable_token"
        answer = await self._http.request(
            "POST",
            path,
            {},
            {
                "grant_type": "client_credential",
                "appid": self._config.app_id,
                "secret": self._secret,
                "force_refresh": force,
            },
        )
        return token_of(path, answer)
