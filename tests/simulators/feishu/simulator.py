"""The Feishu simulator: one object that serves Feishu on a loopback port and holds the doors.

Speaks Feishu's own protocol (Open API, long connection, webhook pushes) to the real SDK and knows
nothing of the program it tests. Doors that make something happen are coroutines, except for
creating, planning faults and reading back.
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

from .bell import Bell
from .faults import FaultPlan
from .feed import Feed
from .long_connection import LongConnection
from .open_api import OpenApi
from .people import People
from .record import Record
from .tenant import Chat, ChatKind, Tenant, User
from .trouble import Trouble
from .webhook import Webhook


class FeishuSimulator:
    """Feishu on 127.0.0.1; use as `async with FeishuSimulator() as feishu`.

    Its doors are the methods of its parts: acting in `People`, reading and waiting in `Record`,
    breaking in `Trouble` and `FaultPlan`; people and places are made here.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        ack_timeout_s: float = 3.0,
        retry_delays_s: Sequence[float] = (0.1, 0.3, 0.6, 1.0),
        connection_wait_s: float = 30.0,
        token_expire_s: float = 7200.0,
        encrypted: bool = True,
        bot_name: str = "robot",
        seed: int = 1,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._port = port
        self._ack_timeout_s = ack_timeout_s
        self.bell = Bell()
        self.tenant = Tenant(bot_name=bot_name, seed=seed, now=now)
        self.app_secret = f"simulated-app-secret-{seed}"
        self.verification_token = f"simulated-verification-token-{seed}"
        self.encrypt_key = f"simulated-encrypt-key-{seed}" if encrypted else ""
        self.feed = Feed(self.bell, retry_delays_s=retry_delays_s)
        self.sockets = LongConnection(
            self.bell, ack_timeout_s=ack_timeout_s, connection_wait_s=connection_wait_s, seed=seed
        )
        self.webhook: Webhook | None = None
        self.feed.transport = self.sockets
        self.faults = FaultPlan()
        self.open_api = OpenApi(
            tenant=self.tenant,
            bell=self.bell,
            faults=self.faults,
            sockets=self.sockets,
            app_secret=self.app_secret,
            token_expire_s=token_expire_s,
        )
        self._runner: web.AppRunner | None = None
        self.extra_routes: list[Callable[[web.UrlDispatcher], None]] = []
        self._open_doors()

    def _open_doors(self) -> None:
        people = People(tenant=self.tenant, feed=self.feed, token=self.verification_token)
        self.user_says = people.user_says
        self.user_sends = people.user_sends
        self.forward = people.forward
        self.add_file = people.add_file
        self.recall = people.recall
        self.react = people.react
        self.press_button = people.press_button
        self.open_chat = people.open_chat
        self.choose_in_menu = people.choose_in_menu
        self.add_bot = people.add_bot
        self.remove_bot = people.remove_bot
        record = Record(
            tenant=self.tenant,
            bell=self.bell,
            feed=self.feed,
            open_api=self.open_api,
            sockets=self.sockets,
        )
        self.sent = record.sent
        self.posted = record.posted
        self.reactions = record.reactions
        self.buttons = record.buttons
        self.calls = record.calls
        self.deliveries = record.deliveries
        self.acked = record.acked
        self.unacked = record.unacked
        self.wait_for = record.wait_for
        self.wait_sent = record.wait_sent
        self.wait_text = record.wait_text
        self.wait_connected = record.wait_connected
        self.wait_settled = record.wait_settled
        trouble = Trouble(
            tenant=self.tenant,
            feed=self.feed,
            open_api=self.open_api,
            sockets=self.sockets,
            token=self.verification_token,
        )
        self.send_event = trouble.send_event
        self.send_payload = trouble.send_payload
        self.send_raw = trouble.send_raw
        self.redeliver = trouble.redeliver
        self.hold_events = trouble.hold_events
        self.release_events = trouble.release_events
        self.drop_connection = trouble.drop_connection
        self.close_connections = trouble.close_connections
        self.refuse_handshake = trouble.refuse_handshake
        self.fragment = trouble.fragment
        self.expire_token = trouble.expire_token
        self.change_secret = trouble.change_secret
        self.take_scope = trouble.take_scope
        self.close_streams = trouble.close_streams
        self.fail_next = self.faults.fail_next
        self.limit_rate = self.faults.limit_rate
        self.clear_faults = self.faults.clear

    # --- life cycle

    async def start(self) -> None:
        """Bind the port and serve."""
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_get("/ws", self.sockets.serve)
        for add in self.extra_routes:
            add(app.router)
        self.open_api.add_routes(app.router)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        self.open_api.base_url = self.base_url

    async def stop(self) -> None:
        """Close everything; raises when a delivery crashed inside the simulator."""
        self.open_api.stopping.set()
        self.sockets.drop_connections()
        try:
            await self.feed.close()
        finally:
            if self.webhook is not None:
                await self.webhook.close()
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
        """http://127.0.0.1:PORT, the `domain` of the SDK, without a final slash."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def app_id(self) -> str:
        """The app's id."""
        return self.tenant.app_id

    @property
    def bot(self) -> User:
        """The app's bot."""
        return self.tenant.bot

    def create_user(self, name: str, *, open_id: str = "") -> str:
        """A new person; returns the ou_… id."""
        return self.tenant.add_user(name, open_id=open_id).open_id

    def create_bot(self, name: str, *, open_id: str = "") -> str:
        """Another app's bot, which can be a member of groups and write there."""
        app_id = self.tenant.new_id("cli_b")
        return self.tenant.add_user(name, open_id=open_id, app_id=app_id).open_id

    def create_group(
        self,
        name: str,
        members: Sequence[str] = (),
        *,
        topics: bool = False,
        topic_format: bool = False,
        declared_type: str = "",
        with_bot: bool = True,
        chat_id: str = "",
    ) -> str:
        """A group with these people and, unless told otherwise, the bot; returns the oc_… id.

        topics: a group of topics; topic_format: a group whose messages are shown as topics;
        declared_type: what its events say instead of `group`.
        """
        people = {self.tenant.find_user(each).open_id for each in members}
        people |= {self.bot.open_id} if with_bot else set()
        kind: ChatKind = "topic" if topics else "group"
        chat = self.tenant.add_chat(kind, name=name, members=people, chat_id=chat_id)
        chat.topic_format, chat.declared_type = topic_format, declared_type
        return chat.id

    def create_dm(self, user: str) -> str:
        """The chat of a person with the bot."""
        return self.tenant.dm_of(self.tenant.find_user(user)).id

    def chat(self, chat: str) -> Chat:
        """The simulator's own record of a chat."""
        return self.tenant.find_chat(chat)

    async def use_webhook(self, url: str) -> Webhook:
        """From now on push by HTTP instead of the long connection."""
        if self.webhook is not None:
            await self.webhook.close()
        self.webhook = Webhook(
            url,
            encrypt_key=self.encrypt_key,
            token=self.verification_token,
            ack_timeout_s=self._ack_timeout_s,
            now=self.tenant.now,
        )
        self.feed.transport = self.webhook
        return self.webhook

    def use_long_connection(self) -> None:
        """Push through the long connection again (the state at the start)."""
        self.feed.transport = self.sockets
