"""Threads in which people talked before they called the bot."""

from __future__ import annotations

import itertools
import time

from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def test_a_thread_is_read_when_the_bot_is_called_into_it_and_only_then(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    channel = slack.create_channel("general", [alice, bob], with_bot=False)
    seconds = itertools.count(time.time() - 60)
    slack.workspace.now = lambda: next(seconds)  # people take a moment to write
    root = await slack.user_says(channel, alice, "the pump <leaks> & drips")
    await slack.user_says(channel, bob, f"<@{alice}> since when?", thread_ts=root)
    await slack.invite(channel, slack.bot.id)
    await slack.user_says(channel, alice, "since Monday", thread_ts=root)
    model.expect(Reply(text="Since Monday."), when="how long")
    model.expect(Reply(text="A pump."), when="what does")
    await slack.user_says(channel, bob, "how long?", thread_ts=root, mention=True)
    await slack.wait_sent(1, channel=channel)
    await slack.user_says(channel, bob, "what does?", thread_ts=root)
    await slack.wait_sent(2, channel=channel)
    await daemon.until_quiet()
    first, second = model.requests
    said = ["alice: the pump <leaks> & drips", "bob: @alice since when?", "alice: since Monday"]
    places = [first.all_text.index(words) for words in said]
    assert places == sorted(places)
    for words in said:
        assert first.all_text.count(words) == second.all_text.count(words) == 1
    assert len(slack.calls("conversations.replies")) == 1


async def test_a_thread_that_cannot_be_read_is_no_reason_not_to_answer(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice], with_bot=False)
    root = await slack.user_says(channel, alice, "the pump leaks")
    await slack.invite(channel, slack.bot.id)
    slack.fail_next("conversations.replies", "ratelimited:60", times=3)
    model.expect(Reply(text="I cannot tell."), when="since when")
    await slack.user_says(channel, alice, "since when?", thread_ts=root, mention=True)
    await slack.wait_text("I cannot tell.", channel=channel)
    await daemon.until_quiet()


async def test_a_root_that_was_overheard_is_known_in_its_thread(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    seconds = itertools.count(time.time() - 60)
    slack.workspace.now = lambda: next(seconds)
    root = await slack.user_says(channel, alice, "the pump leaks")
    await slack.user_says(channel, alice, "since Monday", thread_ts=root)
    await slack.wait_settled()
    model.expect(Reply(text="Call a plumber."), when="what now")
    await slack.user_says(channel, alice, "what now?", thread_ts=root, mention=True)
    await slack.wait_text("Call a plumber.", channel=channel)
    model.expect(Reply(text="It leaks."), when="what is it")
    await slack.user_says(channel, alice, "what is it?", mention=True)
    await slack.wait_text("It leaks.", channel=channel)
    await daemon.until_quiet()
    inside, beside = (request.all_text for request in model.requests)
    assert inside.index("the pump leaks") < inside.index("since Monday")
    assert (inside.count("the pump leaks"), inside.count("since Monday")) == (1, 1)
    assert (beside.count("the pump leaks"), beside.count("since Monday")) == (1, 0)
