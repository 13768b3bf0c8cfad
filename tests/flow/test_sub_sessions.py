"""Several conversations at one place: opening, choosing, closing, and what is unread."""

from __future__ import annotations

import pytest

from clawbot.store import outbox
from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


@pytest.fixture
def transport() -> str:
    """The transport makes no difference here."""
    return "socket"


async def say(slack: SlackSimulator, chat: str, user: str, text: str, *, answer: str) -> None:
    """Write something and wait for what is answered."""
    await slack.user_says(chat, user, text)
    await slack.wait_text(answer, channel=chat)


async def test_a_task_has_its_own_memory_and_its_given_context(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="I keep it."), when="token_12345")
    model.expect(Reply(text="About invoices."), when="what is this about")
    model.expect(Reply(text="It was the token."), when="what did I say")
    await say(slack, chat, alice, "remember token_12345", answer="I keep it.")
    await say(slack, chat, alice, "!task new 42 the invoices of May", answer="Task 42 is open")
    await say(slack, chat, alice, "what is this about?", answer="About invoices.")
    await say(slack, chat, alice, "!use base", answer="You are in: main")
    await say(slack, chat, alice, "what did I say?", answer="It was the token.")
    await daemon.until_quiet()
    _, in_task, in_base = model.requests
    assert "token_12345" not in in_task.all_text
    assert in_task.all_text.count("the invoices of May") == 1
    assert "token_12345" in in_base.all_text
    assert "invoices" not in in_base.all_text


async def test_a_reply_of_a_session_that_is_not_shown_waits_and_is_told_of_below_the_next_one(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="slow work")
    model.expect(Reply(text="The slow work is done."), when="slow work")
    model.expect(Reply(text="Four."), when="two and two")
    await say(slack, chat, alice, "!task new 42", answer="Task 42 is open")
    await slack.user_says(chat, alice, "slow work")
    await gate.reached
    await say(slack, chat, alice, "!use base", answer="You are in: main")
    gate.release()
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("held") == 1)
    await say(slack, chat, alice, "two and two?", answer="Four.")
    await daemon.until_quiet()
    assert slack.sent(chat)[-1].text == "Four.\n\n_Unread: task 42 (1). Write `/unread`._"
    await say(slack, chat, alice, "!unread", answer="The slow work is done.")
    await say(slack, chat, alice, "!unread", answer="Nothing is unread.")
    await daemon.until_quiet()
    texts = [message.text for message in slack.sent(chat)]
    assert sum("The slow work is done." in text for text in texts) == 1
    assert await daemon.store.read(outbox.count_by_state) == {"sent": len(texts) + 1}


async def test_choosing_a_session_delivers_what_was_missed_in_one_message(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="first")
    model.expect(Reply(text="first answer"), when="first")
    model.expect(Reply(text="second answer"), when="second")
    await say(slack, chat, alice, "!task new 42", answer="Task 42 is open")
    await slack.user_says(chat, alice, "first")
    await gate.reached
    await slack.user_says(chat, alice, "second")
    await slack.wait_settled()
    await say(slack, chat, alice, "!use base", answer="You are in: main")
    gate.release()
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("held") == 2)
    await say(slack, chat, alice, "!use 42", answer="second answer")
    await daemon.until_quiet()
    assert slack.sent(chat)[-1].text == "You are in: task 42.\n\nfirst answer\n\nsecond answer"
    assert sum("first answer" in message.text for message in slack.sent(chat)) == 1


async def test_a_growing_reply_comes_back_to_life_when_its_session_is_chosen(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="tell me", after=2)
    model.expect(Reply(text=("One. ", "Two. ", "Three.")), when="tell me")
    await say(slack, chat, alice, "!task new 42", answer="Task 42 is open")
    await say(slack, chat, alice, "!use base", answer="You are in: main")
    await say(slack, chat, alice, "!use 42", answer="You are in: task 42")
    await slack.user_says(chat, alice, "tell me")
    await slack.user_says(chat, alice, "!use base")
    await gate.reached
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("held", 0) <= 1)
    await slack.user_says(chat, alice, "!use 42")
    await slack.wait_text("One.", channel=chat)
    gate.release()
    await slack.wait_text("Three.", channel=chat)
    await daemon.until_quiet()
    assert sum("One. Two. Three." in message.text for message in slack.sent(chat)) == 1


async def test_a_place_lists_and_uses_only_its_own_sessions(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    hers, his = slack.create_dm(alice), slack.create_dm(bob)
    await say(slack, hers, alice, "!task new secret", answer="Task secret is open")
    await say(slack, his, bob, "!sessions", answer="main conversation")
    await say(slack, his, bob, "!use secret", answer="There is no conversation secret here")
    await say(slack, his, bob, f"!use slack:{hers}/task:secret", answer="There is no conversation")
    await say(slack, hers, alice, "!sessions", answer="task secret: active")
    await daemon.until_quiet()
    assert not any("secret:" in message.text for message in slack.sent(his))
    assert model.requests == []


async def test_a_closed_task_stops_and_leads_back(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="long work")
    await say(slack, chat, alice, "!task new 42", answer="Task 42 is open")
    await slack.user_says(chat, alice, "long work")
    await gate.reached
    await say(slack, chat, alice, "!task done", answer="Task 42 is closed.")
    await model.wait_until(
        lambda: model.requests[0].outcome == "disconnected", "the call to be closed"
    )
    await say(slack, chat, alice, "!use 42", answer="There is no conversation 42")
    model.expect(Reply(text="here again"), when="hello")
    await say(slack, chat, alice, "hello", answer="here again")
    await daemon.until_quiet()
    assert "You are in: main conversation." in "\n".join(m.text for m in slack.sent(chat))
