"""Signs on Slack that an answer is being prepared."""

from collections.abc import AsyncIterator

import pytest

from adapters.slack.references import Asked
from clawbot.messages import ReplyRoute
from tests.adapters.slack_rig import opened
from tests.simulators.slack import SlackSimulator

STATUS = "assistant.threads.setStatus"


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1")
        yield simulator


def route(chat_id: str, ts: str, thread: str | None = None) -> ReplyRoute:
    asked = Asked(ts=ts, user_id="U1", team_id="T1")
    return ReplyRoute(chat_id=chat_id, thread=thread, token=asked.encode())


def reactions(slack: SlackSimulator, chat: str, ts: str) -> list[str]:
    found = slack.conversation(chat).find(ts)
    assert found is not None
    return [name for name, people in found.reactions.items() if people]


async def test_a_thread_shows_a_status_until_its_last_answer(slack: SlackSimulator) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    more = await slack.user_says("C1", "U1", "and", thread_ts=root)
    async with opened(slack) as adapter:
        first, second = route("C1", root, root), route("C1", more, root)
        await adapter.typing(first, active=True)
        await adapter.typing(second, active=True)
        await adapter.typing(first, active=False)
        assert slack.workspace.thread_status == {("C1", root): "is thinking…"}
        await adapter.typing(second, active=False)
        assert slack.workspace.thread_status == {}
        assert reactions(slack, "C1", root) == []


async def test_outside_threads_a_reaction_stands_on_the_message(slack: SlackSimulator) -> None:
    chat = slack.create_dm("U1")
    ts = await slack.user_says(chat, "U1", "hello")
    async with opened(slack) as adapter:
        for _ in range(2):
            await adapter.typing(route(chat, ts), active=True)
        assert reactions(slack, chat, ts) == ["hourglass_flowing_sand"]
        for _ in range(2):
            await adapter.typing(route(chat, ts), active=False)
        assert reactions(slack, chat, ts) == []
    assert slack.calls(STATUS) == []


async def test_an_app_without_the_status_falls_back_to_the_reaction(
    slack: SlackSimulator,
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    slack.fail_next(STATUS, "error:missing_scope")
    async with opened(slack) as adapter:
        for _ in range(2):
            await adapter.typing(route("C1", root, root), active=True)
        assert reactions(slack, "C1", root) == ["hourglass_flowing_sand"]
        assert len(slack.calls(STATUS)) == 1, "it is not asked for again"
        await adapter.typing(route("C1", root, root), active=False)
        assert reactions(slack, "C1", root) == []


@pytest.mark.parametrize("fault", ["http:500", "ratelimited:9", "error:missing_scope", "html"])
async def test_a_sign_that_fails_disturbs_nobody(slack: SlackSimulator, fault: str) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    for method in (STATUS, "reactions.add", "reactions.remove"):
        slack.fail_next(method, fault, times=5)
    async with opened(slack) as adapter:
        for active in (True, True, False):
            await adapter.typing(route("C1", root, root), active=active)
        await adapter.typing(ReplyRoute(chat_id="C1"), active=True)
        assert adapter.health().state != "broken"


async def test_the_reaction_can_be_switched_off(slack: SlackSimulator) -> None:
    chat = slack.create_dm("U1")
    ts = await slack.user_says(chat, "U1", "hello")
    async with opened(slack, typing_reaction="") as adapter:
        await adapter.typing(route(chat, ts), active=True)
    assert slack.calls("reactions.add") == []
