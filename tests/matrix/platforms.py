"""The platforms of the kill matrix and the soak: what people do there, and what stands there then.

Each is a simulator behind the same few doors. A platform gives a message again until it is
acknowledged, as the real ones do; where it tries three times alone, those tries are kept back while
nobody listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from tests.flow.conftest import free_port
from tests.flow.feishu_ground import feishu_keys
from tests.flow.wechat_ground import until_listening, wechat_keys, wecom_keys
from tests.matrix.talk import Asked, Asks, Sent, question
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.slack import SlackSimulator
from tests.simulators.wechat import WechatSimulator, WecomSimulator
from tests.simulators.wechat.pushing import Delivery, Pusher

PATIENT = (0.05, 0.2, *(0.25 for _ in range(4000)))
ACK_S = 10.0
LINK_S = 600.0  # so long a message waits for a link to go out by
ATTEMPT_S = 3.0
WAIT_S = 60.0


class Platform(Protocol):
    """A simulated platform. channel: its name in the config, `keys` of that section; most_parts:
    of a long answer; keeps_unknown: whether a send may stay unknown, for the platform has neither
    keys for them nor a way to look them up.
    """

    channel: str
    most_parts: int
    keeps_unknown: bool

    @property
    def keys(self) -> Mapping[str, Any]: ...

    async def reach(self) -> None:
        """Wait until messages reach the adapter."""

    async def say(self, number: int, kind: Asks) -> Asked:
        """Somebody new asks."""

    async def say_again(self, asked: Asked, number: int, kind: Asks) -> Asked:
        """The same person asks something else in the same chat."""

    def sent(self) -> Iterator[Sent]:
        """What the bot's messages show now."""

    def unfinished(self) -> int:
        """How many messages look as if they still grew."""

    def hold_back(self) -> None:
        """Make no further attempt at a message for now, where the attempts are few."""

    def go_on(self) -> None:
        """Make them."""

    def has_given_up(self, asked: Asked) -> bool:
        """Whether the platform tries no more to deliver a message, though nobody took it."""

    def deliveries_of(self, asked: Asked) -> list[object]:
        """What became of the attempts to deliver a message, to look for faults."""

    async def repeat_all(self) -> None:
        """Deliver once more all that was ever delivered, where the platform may do so."""

    async def settle(self) -> None:
        """Wait until every delivery has been acknowledged."""


class GivesForLong:
    """What Slack and Feishu have in common: they give a message again for hours, and their messages
    grow.
    """

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator

    def unfinished(self) -> int:
        return sum(message.streaming for message in self._simulator.sent())

    def hold_back(self) -> None:
        pass

    def go_on(self) -> None:
        pass

    def has_given_up(self, asked: Asked) -> bool:
        return False

    def deliveries_of(self, asked: Asked) -> list[object]:
        words = question(asked.kind, asked.number, asked.paragraphs)
        return [each for each in self._simulator.deliveries() if words in str(each.payload)]

    async def repeat_all(self) -> None:
        for delivery in list(self._simulator.deliveries()):
            await self._simulator.redeliver(delivery)

    async def settle(self) -> None:
        await self._simulator.wait_settled(timeout_s=WAIT_S)


class TriesThreeTimes:
    """What WeChat's surfaces have in common: they push to an address, a few times."""

    def __init__(self, pusher: Pusher, keys: Mapping[str, Any], path: str) -> None:
        self._pusher = pusher
        self._keys = keys
        pusher.url = f"http://127.0.0.1:{keys['listen_port']}{path}"

    @property
    def keys(self) -> Mapping[str, Any]:
        return self._keys

    async def reach(self) -> None:
        await until_listening(self._keys["listen_port"], WAIT_S)

    def unfinished(self) -> int:
        return 0

    def hold_back(self) -> None:
        self._pusher.pause_between_attempts()

    def go_on(self) -> None:
        self._pusher.go_on()

    def has_given_up(self, asked: Asked) -> bool:
        return all(each.state == "lost" for each in _deliveries(self._pusher, asked))

    def deliveries_of(self, asked: Asked) -> list[object]:
        return [*_deliveries(self._pusher, asked)]


class Slack(GivesForLong):
    """Direct messages, and threads of a channel, over Socket Mode."""

    channel = "slack"
    most_parts = 4
    keeps_unknown = False

    def __init__(self, slack: SlackSimulator) -> None:
        super().__init__(slack)
        self.slack = slack
        self._general = slack.create_channel("general", [slack.create_user("owner")])
        self._users: dict[int, str] = {}
        self._direct: set[str] = set()

    @property
    def keys(self) -> Mapping[str, Any]:
        return {
            "type": "slack",
            "mode": "socket",
            "bot_token": self.slack.bot_token,
            "app_token": self.slack.app_token,
            "api_base_url": self.slack.api_url,
        }

    async def reach(self) -> None:
        await self.slack.wait_connected(timeout_s=WAIT_S)

    async def say(self, number: int, kind: Asks) -> Asked:
        user = self.slack.create_user(f"user{number}")
        self._users[number] = user
        if number % 2:
            chat = self.slack.create_dm(user)
            self._direct.add(chat)
            return await self._ask(chat, user, number, kind)
        await self.slack.invite(self._general, user)
        return await self._ask(self._general, user, number, kind)

    async def say_again(self, asked: Asked, number: int, kind: Asks) -> Asked:
        user = self._users[number] = self._users[asked.number]
        return await self._ask(asked.chat_id, user, number, kind)

    async def _ask(self, chat: str, user: str, number: int, kind: Asks) -> Asked:
        text, is_direct = question(kind, number, 40), chat in self._direct
        ts = await self.slack.user_says(chat, user, text, mention=not is_direct)
        place = (chat,) if is_direct else (chat, ts)
        return Asked(number=number, kind=kind, place=place, chat_id=chat, paragraphs=40)

    def sent(self) -> Iterator[Sent]:
        for message in self.slack.sent():
            thread = () if message.thread_ts is None else (message.thread_ts,)
            yield Sent(place=(message.channel, *thread), text=message.shown)


class Feishu(GivesForLong):
    """Direct chats and a group; over the long connection or by webhook."""

    channel = "feishu"
    most_parts = 3
    keeps_unknown = False

    def __init__(self, feishu: FeishuSimulator, mode: str) -> None:
        super().__init__(feishu)
        self.feishu = feishu
        self._port = free_port()
        self._mode = mode
        self._people: dict[int, str] = {}
        self._team = feishu.create_group("team", [feishu.create_user("owner")])

    @property
    def keys(self) -> Mapping[str, Any]:
        return feishu_keys(self.feishu, self._mode, listen_port=self._port)

    async def begin(self) -> None:
        """Let it push where the adapter will listen."""
        if self._mode == "webhook":
            await self.feishu.use_webhook(f"http://127.0.0.1:{self._port}/feishu/events")

    async def reach(self) -> None:
        if self._mode == "webhook":
            await until_listening(self._port, WAIT_S)
        else:
            await self.feishu.wait_connected(timeout_s=WAIT_S)

    async def say(self, number: int, kind: Asks) -> Asked:
        name = f"user{number}"
        self._people[number] = name
        user = self.feishu.create_user(name)
        chat = self.feishu.create_dm(name) if number % 2 else self._team
        self.feishu.chat(self._team).members.add(user)
        return await self._ask(chat, name, number, kind)

    async def say_again(self, asked: Asked, number: int, kind: Asks) -> Asked:
        name = self._people[number] = self._people[asked.number]
        return await self._ask(asked.chat_id, name, number, kind)

    async def _ask(self, chat: str, name: str, number: int, kind: Asks) -> Asked:
        is_group = chat == self._team
        words = question(kind, number, 30)
        said = await self.feishu.user_says(chat, name, words, mention=is_group)
        place = (chat, said) if is_group else (chat,)
        return Asked(number=number, kind=kind, place=place, chat_id=chat, paragraphs=30)

    def sent(self) -> Iterator[Sent]:
        for message in self.feishu.sent():
            quoted = (message.parent_id,) if message.chat == self._team else ()
            yield Sent(place=(message.chat, *quoted), text=message.text)


class Wecom(TriesThreeTimes):
    """An app's chats with members; sends are repeated under the duplicate check."""

    channel = "wecom"
    most_parts = 8
    keeps_unknown = False

    def __init__(self, wecom: WecomSimulator) -> None:
        super().__init__(wecom.pusher, wecom_keys(wecom), "/wecom")
        self.wecom = wecom

    async def say(self, number: int, kind: Asks) -> Asked:
        user = f"user{number}"
        self.wecom.members.add(user)
        return self._ask(user, number, kind)

    async def say_again(self, asked: Asked, number: int, kind: Asks) -> Asked:
        return self._ask(asked.chat_id, number, kind)

    def _ask(self, user: str, number: int, kind: Asks) -> Asked:
        self.wecom.user_says(user, question(kind, number, 8))
        return Asked(number=number, kind=kind, place=(user,), chat_id=user, paragraphs=8)

    def sent(self) -> Iterator[Sent]:
        for message in self.wecom.shown:
            yield Sent(place=(message.user,), text=message.text)

    async def repeat_all(self) -> None:
        for delivery in list(self.wecom.pusher.deliveries):
            self.wecom.redeliver(delivery)

    async def settle(self) -> None:
        await self.wecom.pusher.wait_settled(WAIT_S)


class Wechat(TriesThreeTimes):
    """An Official Account with customer service: the first answer goes with the response when it is
    quick, all others are messages, which have no key and cannot be looked up.
    """

    channel = "wechat"
    most_parts = 5
    keeps_unknown = True

    def __init__(self, wechat: WechatSimulator) -> None:
        keys = wechat_keys(wechat, customer_service=True, attempt_s=ATTEMPT_S)
        super().__init__(wechat.pusher, keys, "/wechat")
        self.wechat = wechat

    async def say(self, number: int, kind: Asks) -> Asked:
        return self._ask(f"user{number}", number, kind)

    async def say_again(self, asked: Asked, number: int, kind: Asks) -> Asked:
        return self._ask(asked.chat_id, number, kind)

    def _ask(self, user: str, number: int, kind: Asks) -> Asked:
        self.wechat.user_says(user, question(kind, number, 6))
        return Asked(number=number, kind=kind, place=(user,), chat_id=user, paragraphs=6)

    def sent(self) -> Iterator[Sent]:
        for message in self.wechat.shown:
            is_notice = message.way == "unavailable"
            yield Sent(place=(message.user,), text=message.text, is_notice=is_notice)

    async def repeat_all(self) -> None:
        """WeChat asks again only for what was not answered: then the answer must come again."""

    async def settle(self) -> None:
        await self.wechat.wait_settled(WAIT_S)


def _deliveries(pusher: Pusher, asked: Asked) -> list[Delivery]:
    words = question(asked.kind, asked.number, asked.paragraphs)
    return [each for each in pusher.deliveries if each.fields.get("Content") == words]


# -- which there are -------------------------------------------------------------------------------


@asynccontextmanager
async def open_slack() -> AsyncIterator[Platform]:
    async with SlackSimulator(
        ack_timeout_s=ACK_S, retry_delays_s=PATIENT, connection_wait_s=LINK_S
    ) as slack:
        yield Slack(slack)


@asynccontextmanager
async def open_feishu(mode: str = "long_connection") -> AsyncIterator[Platform]:
    async with FeishuSimulator(
        bot_name="clawbot",
        ack_timeout_s=ACK_S,
        retry_delays_s=PATIENT,
        connection_wait_s=LINK_S,
    ) as feishu:
        platform = Feishu(feishu, mode)
        await platform.begin()
        yield platform


@asynccontextmanager
async def open_feishu_webhook() -> AsyncIterator[Platform]:
    async with open_feishu("webhook") as platform:
        yield platform


@asynccontextmanager
async def open_wecom() -> AsyncIterator[Platform]:
    async with WecomSimulator(attempt_s=ACK_S) as wecom:
        yield Wecom(wecom)


@asynccontextmanager
async def open_wechat() -> AsyncIterator[Platform]:
    async with WechatSimulator(attempt_s=ATTEMPT_S) as wechat:
        yield Wechat(wechat)


PLATFORMS: Mapping[str, Callable[[], Any]] = {
    "slack": open_slack,
    "feishu": open_feishu,
    "feishu-webhook": open_feishu_webhook,
    "wecom": open_wecom,
    "wechat": open_wechat,
}


async def until(look: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    """Wait for a state that nobody announces."""
    try:
        async with asyncio.timeout(timeout_s):
            while not look():  # noqa: ASYNC110 other processes set no event here
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise TimeoutError(f"waited {timeout_s:.0f} s for {what}") from error
