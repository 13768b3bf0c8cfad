"""The assistant's threads and the Home tab."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.adapters.slack_rig import Recorder, listening, opened, receiving, until
from tests.simulators.slack import SlackSimulator

PROMPTS = "assistant.threads.setSuggestedPrompts"


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1")
        yield simulator


def home(slack: SlackSimulator) -> str:
    view = slack.workspace.views.get("U1") or {"blocks": []}
    return "\n".join(block["text"]["text"] for block in view["blocks"])


@pytest.mark.parametrize("mode", ["socket", "http"])
async def test_a_new_thread_of_the_assistant_is_offered_questions(
    slack: SlackSimulator, mode: str
) -> None:
    chat = slack.create_dm("U1", assistant=True)
    recorder = Recorder()
    async with receiving(slack, recorder, mode):
        thread = await slack.open_assistant_thread(chat, "U1")
        await slack.wait_for(lambda: slack.workspace.assistant_calls, what="prompts")
        await slack.user_says(chat, "U1", "hello", thread_ts=thread)
        await recorder.until(lambda: recorder.messages)
        await slack.wait_settled()
    (call,) = slack.workspace.assistant_calls
    assert (call["channel"], call["thread_ts"], call["what"]) == (chat, thread, "prompts")
    assert all(each["title"] and each["message"] for each in call["value"])
    assert [(each.text, each.thread) for each in recorder.messages] == [("hello", thread)]
    assert slack.unacked() == []


async def test_no_questions_are_offered_where_none_are_configured(slack: SlackSimulator) -> None:
    chat = slack.create_dm("U1", assistant=True)
    recorder = Recorder()
    async with opened(slack, suggested_prompts=()) as adapter, listening(adapter, recorder):
        await slack.open_assistant_thread(chat, "U1")
        await slack.wait_settled()
        await adapter.close()
    assert slack.calls(PROMPTS) == []


async def test_what_a_person_looks_at_is_told_with_what_they_say(slack: SlackSimulator) -> None:
    chat = slack.create_dm("U1", assistant=True)
    slack.create_channel("random", ["U1"], channel_id="C2")
    recorder = Recorder()
    async with receiving(slack, recorder, "socket") as adapter:
        thread = await slack.open_assistant_thread(chat, "U1", context_channel="C1")
        await slack.user_says(chat, "U1", "first", thread_ts=thread)
        await slack.change_assistant_context(chat, "U1", thread, "C2")
        await slack.user_says(chat, "U1", "!stop", thread_ts=thread)
        await slack.wait_settled()
        await recorder.until(lambda: len(recorder.messages) == 2)
        told = [await adapter.enrich(message.raw) for message in recorder.messages]
    assert recorder.messages[0].text.startswith("first\n[looking at ")
    assert told[1].text == "!stop\n[looking at #random]"
    assert told[1].command_text == "!stop"


@pytest.mark.parametrize("fault", ["http:500", "ratelimited:9", "error:missing_scope"])
async def test_surfaces_that_fail_disturb_no_conversation(
    slack: SlackSimulator, fault: str
) -> None:
    chat = slack.create_dm("U1", assistant=True)
    slack.fail_next(PROMPTS, fault)
    slack.fail_next("views.publish", fault)
    recorder = Recorder()
    async with receiving(slack, recorder, "socket") as adapter:
        thread = await slack.open_assistant_thread(chat, "U1")
        await slack.open_app_home("U1")
        await slack.user_says(chat, "U1", "hello", thread_ts=thread)
        await recorder.until(lambda: recorder.messages)
        await until(lambda: slack.calls("views.publish") and slack.calls(PROMPTS))
        assert adapter.health().state == "up"


async def test_the_home_tab_shows_what_the_core_tells_to_those_who_may_talk(
    slack: SlackSimulator,
) -> None:
    asked: list[tuple[str, str]] = []
    answers: list[Any] = ["**Idle.**\n\n" + "- `slack:D1` <x>\n" * 300, None]

    async def overview(chat_id: str, person: str) -> str | None:
        asked.append((chat_id, person))
        shown: str | None = answers[len(asked) - 1]
        return shown

    chat = slack.create_dm("U1")
    async with opened(slack) as adapter:
        adapter.overview_with(overview)
        async with listening(adapter, Recorder()):
            await slack.open_app_home("U1", tab="messages")
            await slack.open_app_home("U1")
            await until(lambda: "*Idle.*" in home(slack))
            assert home(slack).count("&lt;x&gt;") == 300
            await slack.open_app_home("U1")
            await until(lambda: "may not talk" in home(slack))
    assert asked == [(chat, "U1")] * 2
