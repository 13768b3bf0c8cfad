"""Slack's Web API: the client, who we are, names and files; messages are in `chat_api`.

Nothing is retried here: who calls knows what may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.payload import Json, object_of, objects_of, text_of
from adapters.slack.config import SlackConfig
from adapters.slack.facts import Identity
from adapters.slack.failures import from_api_error, from_client_error
from adapters.slack.files import is_slack_url, refusal_of
from clawbot.errors import NotLoaded, NotSent, Rejected, SendError
from clawbot.messages import Attachment

CALL_TIMEOUT_S = 15.0
UPLOAD_BYTES_PER_S = 250_000  # the slowest line on which an upload is waited for
REFUSED_FILE = frozenset({400, 413, 415, 422})
"""Of an upload: the file itself is not wanted, and would not be the next time either."""

_CONNECT_TIMEOUT_S = 5.0


def quiet_logger() -> logging.Logger:
    """For Slack's libraries: they log a traceback an attempt and whole frames; we log changes."""
    logger = logging.getLogger("slack_sdk.clawbot")
    logger.setLevel(logging.CRITICAL)
    return logger


class SlackApi:
    """The Web API as one bot. Methods raise NotSent, Rejected or OutcomeUnknown.

    scopes: what the bot token may do, as Slack said last; empty when it did not say.
    """

    def __init__(self, config: SlackConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None
        self.scopes: frozenset[str] = frozenset()

    @property
    def client(self) -> AsyncWebClient:
        """The SDK's client on one shared session, made at first use inside the running loop."""
        if self._client is None:
            # With a session of its own the SDK ignores its `timeout`; only the session's counts.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=_CONNECT_TIMEOUT_S)
            )
            self._client = AsyncWebClient(
                token=self._config.bot_token.get_secret_value(),
                base_url=self._config.api_base_url,
                session=self._session,
                # The default repeats a post whose connection broke after Slack took it.
                retry_handlers=[],
                logger=quiet_logger(),
            )
            if self._config.is_loopback:
                self._client.proxy = None  # the SDK reads HTTPS_PROXY and ignores NO_PROXY
        return self._client

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        session, self._session, self._client = self._session, None, None
        if session is not None:
            await session.close()

    # -- who we are --------------------------------------------------------------------------------

    async def identify(self) -> Identity:
        """auth.test, and the app's id where the scopes allow to ask for it."""
        method = "auth.test"
        answer = await self._answer(method, self.client.auth_test())
        me = object_of(answer.data)
        granted = text_of(dict(answer.headers).get("X-OAuth-Scopes"))
        self.scopes = frozenset(filter(None, map(str.strip, granted.split(","))))
        bot_id = text_of(me.get("bot_id"))
        teams = {text_of(me.get(key)) for key in ("team_id", "enterprise_id")}
        return Identity(
            user_ids=frozenset({text_of(me.get("user_id"))} - {""}),
            bot_ids=frozenset({bot_id} - {""}),
            app_id=self._config.app_id or await self._app_id(bot_id),
            team_ids=frozenset(teams - {""}),
            name=text_of(me.get("user")),
        )

    async def _app_id(self, bot_id: str) -> str:
        if not bot_id:
            return ""
        try:
            answer = await self.call("bots.info", self.client.bots_info(bot=bot_id))
        except SendError:
            return ""  # only a second line of defence; Socket Mode's hello tells it too
        return text_of(object_of(answer.get("bot")).get("app_id"))

    async def open_socket(self) -> str:
        """apps.connections.open: a URL with a ticket that is good for one connection, soon."""
        secret = self._config.app_token
        token = secret.get_secret_value() if secret is not None else ""
        method = "apps.connections.open"
        answer = await self.call(method, self.client.apps_connections_open(app_token=token))
        url = text_of(answer.get("url"))
        if not url:
            raise NotSent(f"slack {method}: the answer holds no url")
        return url

    # -- names and files ---------------------------------------------------------------------------

    async def user_name(self, user_id: str) -> str:
        """The name that people see; "" when the user has none."""
        answer = await self.call("users.info", self.client.users_info(user=user_id))
        user = object_of(answer.get("user"))
        profile = object_of(user.get("profile"))
        names = [text_of(profile.get("display_name")), text_of(profile.get("real_name"))]
        names += [text_of(user.get("real_name")), text_of(user.get("name"))]
        return next((name for name in names if name), "")

    async def channel_name(self, channel_id: str) -> str:
        """A channel's name; "" where it has none."""
        answer = await self.call(
            "conversations.info", self.client.conversations_info(channel=channel_id)
        )
        return text_of(object_of(answer.get("channel")).get("name"))

    async def group_names(self) -> dict[str, str]:
        """The handles of all user groups, by id."""
        answer = await self.call("usergroups.list", self.client.usergroups_list())
        groups = objects_of(answer.get("usergroups"))
        return {text_of(group.get("id")): text_of(group.get("handle")) for group in groups}

    async def file(self, file_id: str) -> Json:
        """files.info: the whole file object."""
        answer = await self.call("files.info", self.client.files_info(file=file_id))
        return object_of(answer.get("file"))

    async def upload_url(self, name: str, size_bytes: int) -> tuple[str, str]:
        """files.getUploadURLExternal: where to bring a file, and its id."""
        method = "files.getUploadURLExternal"
        answer = await self.call(
            method, self.client.files_getUploadURLExternal(filename=name, length=size_bytes)
        )
        url, file_id = text_of(answer.get("upload_url")), text_of(answer.get("file_id"))
        if not url or not file_id:
            raise NotSent(f"slack {method}: the answer names no file")
        return url, file_id

    async def put(self, url: str, data: bytes) -> None:
        """Bring a file's bytes to its upload URL, which is a secret of its own: it gets no token.

        The SDK's `files_upload_v2` does so within the session's time-out, too short for large ones.
        """
        client, session = self.client, self._session
        if session is None:  # closed meanwhile
            raise NotSent("the channel is being closed")
        where = "slack upload"
        timeout = aiohttp.ClientTimeout(
            total=CALL_TIMEOUT_S + len(data) / UPLOAD_BYTES_PER_S,
            sock_connect=_CONNECT_TIMEOUT_S,
        )
        try:
            async with session.post(url, data=data, proxy=client.proxy, timeout=timeout) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NotSent(f"{where}: {type(error).__name__}") from error
        if status in REFUSED_FILE:
            raise Rejected(f"{where}: HTTP {status}", code=f"upload_http_{status}")
        if status != 200:
            raise NotSent(f"{where}: HTTP {status}")

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """The bytes behind a file's private URL. Raises NotLoaded.

        The bot's token goes to Slack alone: a file may be kept by another service.
        """
        url = attachment.source
        if not is_slack_url(url, self._config.api_base_url):
            raise NotLoaded("it is kept by another service, not by Slack")
        if (attachment.size_bytes or 0) > max_bytes:
            raise _too_large(max_bytes)
        client, session = self.client, self._session
        if session is None:  # closed meanwhile
            raise NotLoaded("the channel is being closed")
        headers = {"Authorization": f"Bearer {client.token}"}
        try:
            async with session.get(
                url,
                headers=headers,
                allow_redirects=False,
                proxy=client.proxy,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=10),
            ) as answer:
                if refusal := refusal_of(answer.status, answer.content_type, attachment.mime):
                    raise NotLoaded(refusal)
                data = await answer.content.read(max_bytes + 1)
                while len(data) <= max_bytes and not answer.content.at_eof():
                    data += await answer.content.read(max_bytes + 1 - len(data))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NotLoaded("the connection to Slack broke off") from error
        if len(data) > max_bytes:
            raise _too_large(max_bytes)
        return data

    async def call(self, method: str, call: Awaitable[AsyncSlackResponse]) -> Json:
        """The answer to a call of the SDK's client. Raises NotSent, Rejected or OutcomeUnknown."""
        return object_of((await self._answer(method, call)).data)

    async def _answer(self, method: str, call: Awaitable[AsyncSlackResponse]) -> AsyncSlackResponse:
        try:
            return await call
        except SlackApiError as error:
            raise from_api_error(method, error) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(method, error) from error


def _too_large(max_bytes: int) -> NotLoaded:
    return NotLoaded(f"it is larger than {max_bytes:,} bytes")
