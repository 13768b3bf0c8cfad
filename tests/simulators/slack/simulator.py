"""The Slack simulator: one object that serves Slack on a loopback port and holds the doors.

Speaks Slack's own protocol (Web API, Socket Mode, signed Events API) to the real SDK and knows
nothing of the program it tests. Doors that make something happen are coroutines, except for
creating, planning faults and reading back.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from aiohttp import web

from .channel_view import ChannelView
from .faults import FaultPlan
from .feed import Delivery, Feed
from .interactions import Interactions
from .people import People
from .record import Record
from .responses import Responses
from .signed_http import RequestUrls, SignedHttp
from .socket_mode import SocketMode
from .trouble import Trouble
from .waiting import Bell
from .web_api import Token, WebApi
from .workspace import Conversation, User, Workspace

SCOPES = (
    "app_mentions:read assistant:write channels:history channels:read chat:write commands"
    " files:read files:write groups:history groups:read im:history im:read im:write"
    " mpim:history mpim:read reactions:read reactions:write team:read usergroups:read users:read"
)


class SlackSimulator:
    """Slack on 127.0.0.1; use as `async with SlackSimulator() as slack`.

    Its doors are the methods of its parts: acting in `People` and `Interactions`, reading and
    waiting in `Record`, breaking in `Trouble` and `FaultPlan`; people and places are made here.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        ack_timeout_s: float = 3.0,
        retry_delays_s: Sequence[float] = (0.0, 0.2, 0.5),
        connection_wait_s: float = 30.0,
        stream_idle_s: float | None = None,
        bot_name: str = "robot",
        seed: int = 1,
    ) -> None:
        self._port = port
        self._ack_timeout_s = ack_timeout_s
        self._stream_idle_s = stream_idle_s
        self.bell = Bell()
        self.workspace = Workspace(bot_name=bot_name, seed=seed)
        self.signing_secret = f"simulated-signing-secret-{seed}"
        self.verification_token = f"simulated-verification-token-{seed}"
        self.bot_token = f"xoxb-simulated-{seed}"
        self.app_token = f"xapp-1-simulated-{seed}"
        self.feed = Feed(
            self.workspace,
            self.bell,
            retry_delays_s=retry_delays_s,
            verification_token=self.verification_token,
        )
        self.feed.on_ack = self._acked_with_payload
        self.socket_mode = SocketMode(
            self.feed,
            self.bell,
            app_id=self.workspace.app_id,
            ack_timeout_s=ack_timeout_s,
            connection_wait_s=connection_wait_s,
        )
        self.http: SignedHttp | None = None
        self.feed.transport = self.socket_mode
        self.view = ChannelView(workspace=self.workspace, feed=self.feed, bell=self.bell)
        self.responses = Responses(view=self.view)
        self.faults = FaultPlan()
        self.web_api = WebApi(
            view=self.view,
            bell=self.bell,
            faults=self.faults,
            sockets=self.socket_mode,
            tokens={self.bot_token: Token(kind="bot"), self.app_token: Token(kind="app")},
            scopes=set(SCOPES.split()),
        )
        self._runner: web.AppRunner | None = None
        self.extra_routes: list[Callable[[web.UrlDispatcher], None]] = []
        self._open_doors()

    def _open_doors(self) -> None:
        interactions = Interactions(
            view=self.view,
            responses=self.responses,
            verification_token=self.verification_token,
        )
        people = People(view=self.view, interactions=interactions)
        self.user_says = people.user_says
        self.bot_says = people.bot_says
        self.edit_message = people.edit_message
        self.delete_message = people.delete_message
        self.react = people.react
        self.invite = people.invite
        self.kick = people.kick
        self.archive = people.archive
        self.slash_command = interactions.slash_command
        self.press_button = interactions.press_button
        self.message_shortcut = interactions.message_shortcut
        self.open_assistant_thread = interactions.open_assistant_thread
        self.change_assistant_context = interactions.change_assistant_context
        self.open_app_home = interactions.open_app_home
        record = Record(view=self.view, web_api=self.web_api)
        self.sent = record.sent
        self.posted = record.posted
        self.ephemerals = record.ephemerals
        self.sent_files = record.sent_files
        self.transcript = record.transcript
        self.calls = record.calls
        self.deliveries = record.deliveries
        self.acked = record.acked
        self.unacked = record.unacked
        self.wait_for = record.wait_for
        self.wait_sent = record.wait_sent
        self.wait_text = record.wait_text
        self.wait_connected = record.wait_connected
        self.wait_settled = record.wait_settled
        trouble = Trouble(view=self.view, web_api=self.web_api)
        self.send_event = trouble.send_event
        self.send_payload = trouble.send_payload
        self.send_raw_frame = trouble.send_raw_frame
        self.redeliver = trouble.redeliver
        self.hold_events = trouble.hold_events
        self.release_events = trouble.release_events
        self.drop_connection = trouble.drop_connection
        self.disconnect = trouble.disconnect
        self.expire_token = trouble.expire_token
        self.revoke_token = trouble.revoke_token
        self.restore_token = trouble.restore_token
        self.expire_streams = trouble.expire_streams
        self.fail_next = self.faults.fail_next
        self.limit_rate = self.faults.limit_rate
        self.clear_faults = self.faults.clear

    # --- life cycle

    async def start(self) -> None:
        """Bind the port and serve."""
        app = web.Application(client_max_size=256 * 1024 * 1024)
        self.web_api.add_routes(app.router)
        app.router.add_get("/link", self.socket_mode.serve)
        app.router.add_post("/respond/{key}", self.responses.serve)
        for add in self.extra_routes:
            add(app.router)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        self.view.base_url = f"http://127.0.0.1:{self._port}"
        if self._stream_idle_s is not None:
            self.feed.spawn(self._expire_idle_streams(self._stream_idle_s))

    async def stop(self) -> None:
        """Close everything; raises when a delivery crashed inside the simulator."""
        self.web_api.stopping.set()
        self.socket_mode.drop_connections()
        try:
            await self.feed.close()
        finally:
            if self.http is not None:
                await self.http.close()
            if self._runner is not None:
                await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # --- who and what there is

    @property
    def base_url(self) -> str:
        """http://127.0.0.1:PORT, without a final slash."""
        return self.view.base_url

    @property
    def api_url(self) -> str:
        """The `base_url` argument of the SDK's web client."""
        return f"{self.base_url}/api/"

    @property
    def bot(self) -> User:
        """The app's bot: `.id` is its user id, `.bot_id` its bot id."""
        return self.workspace.bot

    def create_user(self, name: str, *, user_id: str = "") -> str:
        """A new person; returns the U… id."""
        return self.workspace.add_user(name, user_id=user_id).id

    def create_channel(
        self,
        name: str,
        members: Sequence[str] = (),
        *,
        private: bool = False,
        with_bot: bool = True,
        channel_id: str = "",
    ) -> str:
        """A channel with these users (ids or names) and, unless told otherwise, the bot."""
        people = self._ids(members) | ({self.bot.id} if with_bot else set())
        kind: Literal["group", "channel"] = "group" if private else "channel"
        return self.workspace.add_conversation(
            kind, name=name, members=people, conversation_id=channel_id
        ).id

    def create_dm(self, user: str, *, assistant: bool = False) -> str:
        """The DM of a user with the bot (D…); `assistant`: of an AI app, where all is threads."""
        conversation = self.workspace.open_im(self.workspace.find_user(user).id)
        conversation.assistant = assistant
        return conversation.id

    def create_mpim(self, users: Sequence[str]) -> str:
        """A group DM of users and the bot."""
        people = self._ids(users) | {self.bot.id}
        name = "mpdm-" + "--".join(self.workspace.users[user].name for user in people) + "-1"
        return self.workspace.add_conversation("mpim", name=name, members=people).id

    def conversation(self, channel: str) -> Conversation:
        """The simulator's own record of a conversation."""
        return self.workspace.find_conversation(channel)

    async def use_http(
        self, events_url: str, *, commands_url: str = "", interactive_url: str = ""
    ) -> SignedHttp:
        """From now on push by signed HTTP instead of Socket Mode."""
        if self.http is not None:
            await self.http.close()
        self.http = SignedHttp(
            self.feed,
            RequestUrls(
                events=events_url,
                commands=commands_url or events_url,
                interactive=interactive_url or events_url,
            ),
            signing_secret=self.signing_secret,
            ack_timeout_s=self._ack_timeout_s,
        )
        self.feed.transport = self.http
        return self.http

    def use_socket_mode(self) -> None:
        """Push through Socket Mode again (the state at the start)."""
        self.feed.transport = self.socket_mode

    # --- inside

    def _ids(self, names: Sequence[str]) -> set[str]:
        return {self.workspace.find_user(name).id for name in names}

    def _acked_with_payload(self, delivery: Delivery, payload: Any) -> None:
        if not isinstance(payload, dict):
            return
        match delivery.kind:
            case "slash_commands":
                channel, user = delivery.payload["channel_id"], delivery.payload["user_id"]
            case "interactive":
                channel = delivery.payload["channel"]["id"]
                user = delivery.payload["user"]["id"]
            case _:
                return
        self.responses.apply(channel, user, payload)

    async def _expire_idle_streams(self, idle_s: float) -> None:
        while True:
            await asyncio.sleep(idle_s / 4)
            for message in self.workspace.posted:
                if message.streaming and time.monotonic() - message.streamed_at > idle_s:
                    message.streaming = False
                    self.bell.ring()
