"""Scenario H8: what a session costs is counted, shown to those it concerns, and bounded."""

from __future__ import annotations

import json
from pathlib import Path

from clawbot.session_key import SessionKey
from clawbot.store import costs, events
from tests.process.commands import clawbot
from tests.sessions.ground import Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, Refusal, Reply, ToolCall
from tests.simulators.model import Usage as Reported

A = SessionKey.of_chat("web", "a")
B = SessionKey.of_chat("web", "b")
LOOK = ToolCall(name="list_dir", arguments={})
TEN = Reported(input_tokens=1000, output_tokens=100, cached_tokens=400)
PRICES = "prices: {'openai-chat:scripted': {input: 10, output: 100, cached: 5}}"


def answering(model: ModelSimulator, *texts: str) -> None:
    """Let each of these messages be answered in two steps, at a cent and a bit each."""
    for text in texts:
        model.expect(Reply(tool_calls=(LOOK,), usage=TEN), when=text)
        model.expect(Reply(text=f"did {text}", usage=TEN), when=text)


async def test_h8_each_call_of_a_session_is_counted_with_cached_tokens_and_its_price(
    tmp_path: Path, model: ModelSimulator
) -> None:
    answering(model, "first", "second")
    config = write_config(tmp_path, model, f"budgets: {{{PRICES}}}")
    async with chats(config, model) as chat:
        await chat.say(A, "first")
        await chat.say(B, "second")
        total = await chat.daemon.store.read(lambda tx: costs.total(tx, session=A))
        assert (total.calls, total.failed, total.unpriced) == (2, 0, 0)
        assert (total.input_tokens, total.cached_tokens, total.output_tokens) == (2000, 800, 200)
        assert total.cost_nanos == 2 * (600 * 10 + 400 * 5 + 100 * 100) * 1000
        steps = [entry.usage for entry in await chat.history(A) if entry.usage is not None]
        assert [step.cost_nanos for step in steps] == [18_000_000, 18_000_000]
        assert {step.model for step in steps} == {"openai-chat:scripted"}
        users = await chat.daemon.store.read(lambda tx: costs.by(tx, "user_key"))
        assert [(name, of.calls) for name, of in users] == [("web:me", 4)]


async def test_h8_a_failed_call_is_counted_and_a_price_that_is_unknown_is_not_zero(
    tmp_path: Path, model: ModelSimulator
) -> None:
    model.expect(Refusal(status=500), when="hello")
    model.expect(Reply(text="here I am", usage=TEN), when="hello")
    async with chats(write_config(tmp_path, model), model) as chat:
        assert await chat.say(A, "hello") == "here I am"
        total = await chat.daemon.store.read(lambda tx: costs.total(tx, session=A))
        assert (total.calls, total.failed, total.unpriced) == (2, 1, 1)
        shown = await said(chat, A, "/cost")
    assert "at least $0.00" in shown
    assert "2 call(s) (1 failed), 1,000 tokens in (400 cached), 100 out" in shown


async def said(chat: Chats, key: SessionKey, command: str) -> str:
    """What a command is answered."""
    await chat.send(key, command)
    log = await chat.daemon.store.read(lambda tx: events.of_session(tx, key, 0, limit=1000))
    return str([event.data["text"] for event in log if event.kind == "notice"][-1])


async def test_cost_shows_a_conversation_its_own_and_begins_anew_with_a_new_one(
    tmp_path: Path, model: ModelSimulator
) -> None:
    answering(model, "first", "second")
    config = write_config(tmp_path, model, f"budgets: {{{PRICES}}}")
    async with chats(config, model) as chat:
        assert "since it began: nothing" in await said(chat, A, "/cost")
        await chat.say(A, "first")
        await chat.say(B, "second")
        shown = await said(chat, A, "/cost")
        assert shown.count("$0.0360, 2 call(s), 2,000 tokens in (800 cached), 200 out") == 4
        assert "会话至今：$0.0360" in await said(chat, A, "/费用")
        everything = await said(chat, A, "/cost all")
        assert "$0.0720, 4 call(s)" in everything
        assert "`web:me`" in everything
        await said(chat, A, "/new")
        shown = await said(chat, A, "/cost")
        assert "since it began: nothing" in shown
        assert "today: $0.0360" in shown
    listed = json.loads(await printed(config, "cost", "--by", "session", "--json"))
    assert {row["session"]: row["usd"] for row in listed} == {str(A): 0.036, str(B): 0.036}
    assert "$0.0720" in await printed(config, "cost", "--by", "day")


async def printed(config: Path, *arguments: str) -> str:
    """What a command prints."""
    async with clawbot(config, *arguments) as command:
        assert await command.ended() == 0
        return command.text()


async def test_h8_a_conversation_over_its_budget_stops_before_its_next_call_and_says_so(
    tmp_path: Path, model: ModelSimulator
) -> None:
    answering(model, "first", "after")
    section = f"budgets: {{{PRICES}, session: {{usd: 0.018}}}}"
    async with chats(write_config(tmp_path, model, section), model) as chat:
        reply = await chat.say(A, "first")
        assert "The budget of this conversation is spent" in reply
        assert len(turns_of(model)) == 1
        assert "此会话的预算已用完" in await chat.say(A, "还在吗")
        assert len(turns_of(model)) == 1
        await said(chat, A, "/new")
        assert "budget" in await chat.say(A, "after")
        assert len(turns_of(model)) == 2


async def test_a_person_s_and_a_day_s_budget_hold_over_all_conversations(
    tmp_path: Path, model: ModelSimulator
) -> None:
    for name, limits, told in (
        ("user", "user_day: {tokens: 1100}", "Your budget for today is spent"),
        ("all", "day: {tokens: 1100}", "The budget for today is spent"),
    ):
        model.expect(Reply(text="fine", usage=TEN), when=f"one {name}")
        config = write_config(tmp_path, model, f"budgets: {{{limits}}}", name=name)
        async with chats(config, model) as chat:
            assert await chat.say(A, f"one {name}") == "fine"
            assert told in await chat.say(B, f"two {name}")
    assert len(turns_of(model)) == 2


async def test_another_person_has_a_budget_of_their_own(
    tmp_path: Path, model: ModelSimulator
) -> None:
    model.expect(Reply(text="fine", usage=TEN), when="one")
    model.expect(Reply(text="fine too", usage=TEN), when="two")
    config = write_config(tmp_path, model, "budgets: {user_day: {tokens: 1100}}")
    async with chats(config, model) as chat:
        assert await chat.say(A, "one") == "fine"
        accepted = await chat.send(B, "two", by="somebody-else")
        assert await chat.answered(B, accepted) == "fine too"
