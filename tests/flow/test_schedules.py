"""What is planned, from the chat to the chat: the command, the agent's own plans, silence."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from clawbot.clock import SystemClock
from clawbot.ports import Transaction
from clawbot.store import schedules as plans
from clawbot.store.schema import inbox, schedules
from clawbot.store.topics import SCHEDULES
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator


@pytest.fixture
def path(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    slack.create_user("alice", user_id="U1")
    slack.create_channel("general", ["U1"], channel_id="C1")
    return write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra="""
        time_zone: Asia/Shanghai
        schedules:
          report:
            session: slack:C1
            when: weekdays 9:00
            text: Report what changed.
            may_be_silent: true
        """,
    )


@pytest.fixture
async def daemon(path: Path, slack: SlackSimulator) -> AsyncIterator[Daemon]:
    async with run_daemon(path, "worker", "worker-2", "slack") as running:
        await connect(running, slack, None)
        yield running


async def let_it_be_time(daemon: Daemon, text: str) -> None:
    """Let the time of what is planned come now."""

    now_ms = SystemClock().now_ms()

    def unit(tx: Transaction) -> int:
        tx.ring(SCHEDULES)
        due = update(schedules).where(schedules.c.text == text).values(next_ms=now_ms)
        return tx.conn.execute(due).rowcount

    assert await daemon.store.write(unit) == 1


def planned(tx: Transaction) -> list[str]:
    return list(tx.conn.execute(select(schedules.c.text).order_by(schedules.c.text)).scalars())


async def test_a_person_is_reminded_once_where_they_asked_for_it(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    chat = slack.create_dm("U1")
    await slack.user_says(chat, "U1", "!remind tomorrow 9:00 drink some tea")
    told = await slack.wait_text("I will do so", channel=chat)
    assert re.search(r"at \d{4}-\d\d-\d\d 09:00 \(Asia/Shanghai\)", told.text)
    await slack.user_says(chat, "U1", "!remind")
    listed = await slack.wait_text("Planned here", channel=chat)
    assert "drink some tea" in listed.text
    model.expect(Reply(text="Time for tea!"), when="drink some tea", marker="nobody is writing now")
    await let_it_be_time(daemon, "drink some tea")
    await slack.wait_text("Time for tea!", channel=chat)
    await daemon.until_quiet()
    assert await daemon.store.read(planned) == ["Report what changed."]
    assert sum("Time for tea!" in sent.text for sent in slack.sent(chat)) == 1


async def test_what_is_deleted_or_not_understood_plans_nothing(
    daemon: Daemon, slack: SlackSimulator
) -> None:
    await daemon.until(planned, lambda texts: texts == ["Report what changed."])
    chat = slack.create_dm("U1")
    await slack.user_says(chat, "U1", "!remind 10m tea")
    told = await slack.wait_text("I will do so", channel=chat)
    (plan_id,) = re.findall(r"delete (\w+)", told.text)
    for words, answer in (
        ("soon tea", "I cannot read this time"),
        ("2020-01-01 9:00 tea", "has passed"),
        ("cron 0 0 30 2 * tea", "no cron line"),
        ("10m", "What shall I do then"),
        ("delete nothing", "no plan"),
        (f"delete {plan_id}", "is cancelled"),
        ("", "Nothing is planned here"),
    ):
        await slack.user_says(chat, "U1", f"!remind {words}".strip())
        await slack.wait_text(answer, channel=chat)
    assert await daemon.store.read(planned) == ["Report what changed."]


async def test_what_the_config_plans_is_told_in_its_chat_or_not_at_all(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    await daemon.until(planned, lambda texts: texts == ["Report what changed."])
    quiet = ToolCall(name="say_nothing", arguments={"reason": "nothing changed"})
    model.expect(Reply(tool_calls=(quiet,)), marker="Report what changed.")
    await let_it_be_time(daemon, "Report what changed.")
    states = select(inbox.c.state, inbox.c.reason)
    await daemon.until(
        lambda tx: [tuple(row) for row in tx.conn.execute(states)],
        lambda rows: rows == [("done", "")],
    )
    assert slack.sent("C1") == []
    model.expect(Reply(text="Two files changed."), marker="Report what changed.")
    await let_it_be_time(daemon, "Report what changed.")
    await slack.wait_text("Two files changed.", channel="C1")
    await daemon.until_quiet()
    assert len(slack.sent("C1")) == 1


async def test_the_agent_plans_lists_and_cancels_for_people(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    chat = slack.create_dm("U1")

    def call(**arguments: str) -> ToolCall:
        return ToolCall(name="schedule", arguments=arguments)

    model.expect(
        Reply(tool_calls=(call(action="add", when="every day 9:00", text="Look at the mail."),)),
        when="watch my mail",
    )
    model.expect(Reply(tool_calls=(call(action="list"),)), marker="Planned; it is due at")
    model.expect(Reply(text="I will look every day."), marker="repeatedly, next at")
    await slack.user_says(chat, "U1", "watch my mail")
    await slack.wait_text("I will look every day.", channel=chat)
    wanted = ["Look at the mail.", "Report what changed."]
    await daemon.until(planned, lambda texts: texts == wanted)
    model.expect(Reply(tool_calls=(call(action="add", when="soon", text="x"),)), when="do it soon")
    model.expect(Reply(text="When?"), marker="I cannot read this time")
    await slack.user_says(chat, "U1", "do it soon")
    await slack.wait_text("When?", channel=chat)
    (mail,) = [
        one.id
        for one in await daemon.store.read(
            lambda tx: plans.listing(tx, _session(tx, "Look at the mail."))
        )
    ]
    model.expect(Reply(tool_calls=(call(action="cancel", id=mail),)), when="not any more")
    model.expect(Reply(text="Cancelled."), marker=f"{mail} is cancelled")
    await slack.user_says(chat, "U1", "not any more")
    await slack.wait_text("Cancelled.", channel=chat)
    await daemon.until(planned, lambda texts: texts == ["Report what changed."])


def _session(tx: Transaction, text: str) -> plans.SessionKey:
    key = select(schedules.c.session_key).where(schedules.c.text == text)
    return plans.SessionKey.parse(tx.conn.execute(key).scalar_one())


async def test_who_is_answered_cannot_be_met_with_silence(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    chat = slack.create_dm("U1")
    quiet = ToolCall(name="say_nothing", arguments={"reason": "no wish to"})
    model.expect(Reply(tool_calls=(quiet,)), when="hello")
    model.expect(Reply(text="Hello."), marker="People wait for an answer")
    await slack.user_says(chat, "U1", "hello")
    await slack.wait_text("Hello.", channel=chat)
    offered = {tool["function"]["name"] for tool in model.requests[-1].body["tools"]}
    assert "schedule" in offered
    assert "say_nothing" not in offered
