"""B11: thinking first, then acting, on each wire format; and the providers' own thinking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clawbot.history import EntryKind
from clawbot.session_settings import SessionSettings
from clawbot.store import costs, session_admin
from tests.sessions.ground import GLOBAL, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall
from tests.simulators.model.answer import Usage

WIRES = {
    "openai-chat": "scripted",
    "openai": "gpt-5",
    "anthropic": "claude-opus-4-1",
    "zai": "glm-4.6",
    "deepseek": "deepseek-reasoner",
}
LIST = ToolCall(name="list_dir", arguments={})
PLAN = "I SHALL LIST THE FILES"


def config_for(folder: Path, model: ModelSimulator, provider: str, turns: str) -> Path:
    """A config whose model speaks another wire format."""
    extra = f"turns: {{{turns}}}"
    path = write_config(folder, model, extra)
    text = path.read_text()
    text = text.replace("openai-chat:scripted", f"{provider}:{WIRES[provider]}")
    url = model.base_url(provider)
    text = text.replace(model.base_url("openai-chat"), url).replace(
        "  openai-chat:", f"  {provider}:"
    )
    path.write_text(text)
    return path


def has_choice_none(request: RecordedRequest) -> bool:
    return request.body.get("tool_choice") in ("none", {"type": "none"})


@pytest.mark.parametrize("provider", WIRES)
async def test_B11_a_turn_begins_with_a_call_that_thinks_and_uses_no_tool(
    tmp_path: Path, model: ModelSimulator, provider: str
) -> None:
    config = config_for(tmp_path, model, provider, "thinking: first")
    model.expect(
        Reply(text=PLAN, usage=Usage(input_tokens=10, output_tokens=5)), when=has_choice_none
    )
    model.expect(Reply(text="I look.", tool_calls=(LIST,)), when="what is here")
    model.expect(Reply(text="A README."), when="what is here")
    model.expect(Reply(text="Nothing to think of."), when=has_choice_none)
    model.expect(Reply(text="Bye."), when="good bye")
    async with chats(config, model) as chat:
        said = await chat.say(GLOBAL, "what is here?")
        assert said == "I look.\n\nA README."
        assert await chat.say(GLOBAL, "good bye") == "Bye."
        history = await chat.history(GLOBAL)
        spent = await chat.daemon.store.read(costs.total)
    first, acting, after, second, _ = turns_of(model)
    assert has_choice_none(first)
    assert first.tools == acting.tools != ()
    assert not has_choice_none(acting)
    assert not has_choice_none(after)
    for request in (acting, after, second):
        assert request.all_text.count(PLAN) == 1
        assert request.messages[-1].role != "assistant"
        assert "Before you act, think" not in request.all_text or request is second
    thoughts = [entry for entry in history if entry.is_thought]
    assert [entry.text for entry in thoughts] == [PLAN, "Nothing to think of."]
    assert not any(PLAN in entry.text for entry in history if entry.kind is EntryKind.ASSISTANT)
    assert spent.calls == 5


async def test_B11_a_model_without_words_for_it_acts_without(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = config_for(tmp_path, model, "openai-chat", "thinking: first")
    model.expect(Reply(), when=has_choice_none)
    model.expect(Reply(text="Hello."), when="hi")
    model.expect(Reply(tool_calls=(LIST,)), when=has_choice_none)  # a server that does not listen
    model.expect(Reply(text="Hello again."), when="hello")
    async with chats(config, model) as chat:
        assert await chat.say(GLOBAL, "hi") == "Hello."
        assert await chat.say(GLOBAL, "hello") == "Hello again."
        assert not any(entry.is_thought for entry in await chat.history(GLOBAL))
        assert (await chat.daemon.store.read(costs.total)).calls == 4


async def test_B11_a_turn_that_is_killed_after_it_has_thought_goes_on_with_its_thoughts(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = config_for(tmp_path, model, "openai-chat", "thinking: first")
    model.expect(Reply(text=PLAN), when=has_choice_none)
    model.expect(Reply(text="A README."), when="what is here")
    gate = model.hold(when=lambda request: not has_choice_none(request))
    async with chats(config, model) as chat:
        accepted = await chat.send(GLOBAL, "what is here?")
        await gate.reached
        await chat.daemon.kill("worker")
        gate.release()
        model.expect(Reply(text="A README."), when="what is here")
        await chat.daemon.start("worker-2")
        assert await chat.answered(GLOBAL, accepted) == "A README."
    assert [has_choice_none(request) for request in turns_of(model)] == [True, False, False]
    assert turns_of(model)[-1].all_text.count(PLAN) == 1


async def test_B11_a_session_and_a_provider_say_how_much_is_thought(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = config_for(tmp_path, model, "anthropic", "temperature: 0.5")
    config.write_text(config.read_text().replace("api_key: made-up", "api_key: x, thinking: low"))
    for text in ("one", "two", "three", "four"):
        model.expect(Reply(thinking="hm", text=text), when=text)
    async with chats(config, model) as chat:
        await chat.say(GLOBAL, "one")
        for level, text in (("high", "two"), ("off", "three")):
            await chat.daemon.store.write(
                lambda tx, level=level: session_admin.change_settings(
                    tx, GLOBAL, {"thinking": level}, 1
                )
            )
            await chat.say(GLOBAL, text)
        await chat.daemon.store.write(
            lambda tx: session_admin.change_settings(tx, GLOBAL, {}, 1, unset=("thinking",))
        )
        await chat.say(GLOBAL, "four")
    budgets = [request.body.get("thinking", {}).get("budget_tokens") for request in turns_of(model)]
    assert budgets == [2048, 16_384, None, 2048]
    for request in turns_of(model):
        budget = request.body.get("thinking", {}).get("budget_tokens", 0)
        assert request.body["max_tokens"] == 8192 + budget
        assert ("temperature" in request.body) == (budget == 0)
        assert json.dumps(request.body["messages"]).count('"hm"') <= 3
    assert SessionSettings(thinking="first").thinking == "first"


async def test_B11_signed_thinking_goes_back_through_the_steps_of_a_turn(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = config_for(tmp_path, model, "anthropic", "thinking: low")
    for number in range(3):
        model.expect(Reply(thinking=f"thought {number}", tool_calls=(LIST,)), when="look")
    model.expect(Reply(thinking="done", text="Three times."), when="look")
    async with chats(config, model) as chat:
        assert await chat.say(GLOBAL, "look") == "Three times."
    for number, request in enumerate(turns_of(model)):
        assert request.body["thinking"]["type"] == "enabled"
        assert [one.thinking for one in request.messages if one.role == "assistant"] == [
            f"thought {step}" for step in range(number)
        ]
