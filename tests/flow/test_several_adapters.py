"""Several adapter processes of one channel: they share its events, and answer each of them once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.flow.balancer import Balancer, balancing
from tests.flow.conftest import free_port, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.flow.feishu_ground import feishu_keys
from tests.flow.several import fronts, start_front
from tests.flow.wechat_ground import (
    bot_keys,
    until_listening,
    wechat_keys,
    wecom_keys,
    write_channel,
)
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator
from tests.simulators.slack.socket_mode import MAX_CONNECTIONS
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator

PATIENCE_S = 60.0
ALICE = "oAliceSimulated0000000000001"


def answering(model: ModelSimulator, count: int) -> None:
    """Let the model answer so many questions."""
    for number in range(count):
        model.expect(Reply(text=f"answer {number}."), when=f"question {number}.")


@asynccontextmanager
async def behind_balancer(daemon: Daemon, channel: str) -> AsyncIterator[Balancer]:
    """Two processes of a channel behind a balancer, which takes them in turns."""
    async with fronts(daemon, channel, 2) as both:
        for front in both:
            await until_listening(front.port)
        async with balancing([front.port for front in both]) as balancer:
            yield balancer


# -- connections that share the events -------------------------------------------------------------


async def test_slack_s_ten_connections_share_the_events_and_an_eleventh_waits_for_its_turn(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    url, keys = model.base_url("openai-chat"), slack_keys(slack, "socket", 0)
    path = write_config(tmp_path, model_url=url, slack=keys)
    people = [slack.create_user(f"user{number}") for number in range(40)]
    chats = [slack.create_dm(person) for person in people]
    answering(model, 40)

    async def ask(first: int, last: int) -> None:
        for number in range(first, last):
            await slack.user_says(chats[number], people[number], f"question {number}.")
        for number in range(first, last):
            await slack.wait_text(f"answer {number}.", channel=chats[number], timeout_s=PATIENCE_S)

    async with (
        run_daemon(path, "worker") as daemon,
        fronts(daemon, "slack", MAX_CONNECTIONS) as ten,
        AsyncExitStack() as stack,
    ):
        await slack.wait_connected(MAX_CONNECTIONS, timeout_s=PATIENCE_S)
        await ask(0, 20)
        opened = len(slack.calls("apps.connections.open"))
        await start_front(daemon, "slack", stack)
        # It is told that there are too many, and tries again.
        await slack.wait_for(
            lambda: len(slack.calls("apps.connections.open")) > opened + 1, timeout_s=PATIENCE_S
        )
        assert slack.socket_mode.opened == MAX_CONNECTIONS
        await ten[0].stop()
        await slack.wait_for(
            lambda: slack.socket_mode.opened == MAX_CONNECTIONS + 1, timeout_s=PATIENCE_S
        )
        await ask(20, 40)
        await daemon.until_quiet()
        await slack.wait_settled()
    assert [len(slack.sent(chat)) for chat in chats] == [1] * 40


async def test_feishu_s_connections_of_one_app_get_each_event_once_between_them(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    keys = feishu_keys(feishu, "long_connection")
    path = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    people = [f"user{number}" for number in range(16)]
    chats = []
    for person in people:
        feishu.create_user(person)
        chats.append(feishu.create_dm(person))
    answering(model, 16)
    async with run_daemon(path, "worker") as daemon, fronts(daemon, "feishu", 3) as three:
        await feishu.wait_connected(3, timeout_s=PATIENCE_S)
        for number, person in enumerate(people):
            if number == 8:
                await three[0].stop()
            said = await feishu.user_says(chats[number], person, f"question {number}.")
            await feishu.redeliver(said)  # mostly to another of them
        for number, chat in enumerate(chats):
            await feishu.wait_text(f"answer {number}.", timeout_s=PATIENCE_S)
            assert len(feishu.sent(chat)) == 1
        await daemon.until_quiet()
        await feishu.wait_settled()
    assert [len(feishu.sent(chat)) for chat in chats] == [1] * 16
    assert feishu.unacked() == []


# -- webhooks behind a balancer --------------------------------------------------------------------


async def test_slack_behind_a_balancer(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    url, keys = model.base_url("openai-chat"), slack_keys(slack, "http", free_port())
    path = write_config(tmp_path, model_url=url, slack=keys)
    people = [slack.create_user(f"user{number}") for number in range(8)]
    chats = [slack.create_dm(person) for person in people]
    answering(model, 8)
    async with (
        run_daemon(path, "worker") as daemon,
        behind_balancer(daemon, "slack") as balancer,
    ):
        http = await slack.use_http(f"{balancer.url}/slack/events")
        for _ in balancer.ports:
            assert await http.verify_url(slack.verification_token)
        for number, (chat, person) in enumerate(zip(chats, people, strict=True)):
            await slack.user_says(chat, person, f"question {number}.")
        for number, chat in enumerate(chats):
            await slack.wait_text(f"answer {number}.", channel=chat, timeout_s=PATIENCE_S)
        for delivery in slack.deliveries():
            await slack.redeliver(delivery)
            await slack.redeliver(delivery)  # one of the two goes to the other process
        await slack.wait_settled(timeout_s=PATIENCE_S)
        await daemon.until_quiet()
    assert [len(slack.sent(chat)) for chat in chats] == [1] * 8
    assert set(balancer.answered) == set(balancer.ports)


async def test_feishu_behind_a_balancer(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    keys = feishu_keys(feishu, "webhook")
    path = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    chats = [feishu.create_dm(person) for person in ("alice", "bob")]
    answering(model, 8)
    async with (
        run_daemon(path, "worker") as daemon,
        behind_balancer(daemon, "feishu") as balancer,
    ):
        path_of = daemon.config.channels["feishu"].adapter_config.path  # type: ignore[attr-defined]
        webhook = await feishu.use_webhook(f"{balancer.url}{path_of}")
        for _ in balancer.ports:
            assert await webhook.verify_url()
        for number in range(8):
            person, chat = (("alice", "bob")[number % 2], chats[number % 2])
            said = await feishu.user_says(chat, person, f"question {number}.")
            await feishu.wait_text(f"answer {number}.", timeout_s=PATIENCE_S)
            for _ in balancer.ports:
                await feishu.redeliver(said)
        await feishu.wait_settled(timeout_s=PATIENCE_S)
        await daemon.until_quiet()
    assert [len(feishu.sent(chat)) for chat in chats] == [4, 4]
    assert set(balancer.answered) == set(balancer.ports)


async def test_an_official_account_behind_a_balancer_is_answered_in_whatever_attempt_waits(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with WechatSimulator(mode="safe", attempt_s=2.0) as wechat:
        wechat.may_send = False
        keys = wechat_keys(wechat, customer_service=False, attempt_s=wechat.attempt_s)
        path = write_channel(tmp_path, model.base_url("openai-chat"), keys)
        answering(model, 4)
        async with (
            run_daemon(path, "worker") as daemon,
            behind_balancer(daemon, "wechat") as balancer,
        ):
            wechat.pusher.url = f"{balancer.url}/wechat"
            for number in range(4):
                gate = model.hold(f"question {number}.")
                delivery = wechat.user_says(ALICE, f"question {number}.")
                await gate.reached
                if number % 2:  # so that another process has the attempt that is answered
                    await wechat.pusher.wait_attempt(delivery, 2)
                gate.release()
                await wechat.wait_sent(number + 1, timeout_s=PATIENCE_S)
                await wechat.wait_settled(timeout_s=PATIENCE_S)
            await daemon.until_quiet()
        assert wechat.sent(ALICE) == [f"answer {number}." for number in range(4)]
        assert set(balancer.answered) == set(balancer.ports)


async def test_a_wecom_app_behind_a_balancer(tmp_path: Path, model: ModelSimulator) -> None:
    async with WecomSimulator() as wecom:
        path = write_channel(tmp_path, model.base_url("openai-chat"), wecom_keys(wecom))
        answering(model, 6)
        async with (
            run_daemon(path, "worker") as daemon,
            behind_balancer(daemon, "wecom") as balancer,
        ):
            wecom.pusher.url = f"{balancer.url}/wecom"
            for number in range(6):
                delivery = wecom.user_says("alice", f"question {number}.")
                await wecom.wait_sent(number + 1, timeout_s=PATIENCE_S)
                for _ in balancer.ports:
                    wecom.redeliver(delivery)
            await daemon.until_quiet()
            await wecom.pusher.wait_settled(PATIENCE_S)
        assert wecom.sent("alice") == [f"answer {number}." for number in range(6)]
        assert set(balancer.answered) == set(balancer.ports)


async def test_a_wecom_bot_behind_a_balancer_grows_its_answer_whoever_is_asked_for_it(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with AibotSimulator() as aibot:
        keys = bot_keys(aibot, "webhook")
        path = write_channel(tmp_path, model.base_url("openai-chat"), keys)
        for number in range(4):
            pieces = tuple(f"{number}.{piece} " for piece in range(10))
            model.expect(Reply(text=pieces, delay_s=0.5), when=f"question {number}.")
        async with (
            run_daemon(path, "worker") as daemon,
            behind_balancer(daemon, "wecom_bot") as balancer,
        ):
            aibot.webhook_url = f"{balancer.url}/wecom-bot"
            for number in range(4):
                aibot.user_says(f"user{number}", f"question {number}.")
            await aibot.wait_finished(4, timeout_s=PATIENCE_S)
            await daemon.until_quiet()
        whole = [" ".join(f"{number}.{piece}" for piece in range(10)) for number in range(4)]
        shown = [[text.strip() for text in aibot.sent(f"user{number}")] for number in range(4)]
        assert shown == [[text] for text in whole]
        assert set(balancer.answered) == set(balancer.ports)
        for message in aibot.shown:
            lengths = [len(text) for text in message.revisions]
            assert len(set(lengths)) > 2  # it grew under people's eyes
            assert lengths == sorted(lengths)
