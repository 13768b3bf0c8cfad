"""H5, the core: a tool asks the people of its chat, and nothing waits in a process for them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from clawbot.ports import Transaction
from clawbot.store import inbox
from clawbot.store.schema import approvals, events, messages, sessions, turns
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.tools import Deploy, Echo, Wait

OWNER = "U0OWNER"


@pytest.fixture
def deploy() -> Deploy:
    return Deploy()


@pytest.fixture
def path(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    return write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"owners: ['slack:{OWNER}']",
    )


@pytest.fixture
async def daemon(path: Path, slack: SlackSimulator, deploy: Deploy) -> AsyncIterator[Daemon]:
    async with run_daemon(path, "worker", "slack", tools=[deploy, Echo(), Wait()]) as running:
        await connect(running, slack, None)
        yield running


def call(text: str = "shop v2", name: str = "deploy") -> ToolCall:
    return ToolCall(name=name, arguments={"text": text})


async def asked(slack: SlackSimulator, chat: str, count: int = 1) -> list[str]:
    """Wait until so many questions stand in a chat; return their ids."""
    await slack.wait_text("May I do this?", channel=chat)
    while True:
        texts = [message.revisions[0] for message in slack.sent(chat)]
        ids = [found[1] for text in texts if (found := re.search(r"!approve (\w+)", text))]
        if len(ids) >= count:
            return ids
        await slack.wait_sent(len(texts) + 1, channel=chat)


async def parked(daemon: Daemon, count: int = 1) -> None:
    await daemon.until(
        lambda tx: tx.conn.execute(select(turns.c.state)).scalars().all(),
        lambda states: states.count("parked") == count,
    )


def rows(tx: Transaction) -> list[tuple[str, bool]]:
    found = tx.conn.execute(
        select(approvals.c.state, approvals.c.used_ms).order_by(approvals.c.created_ms)
    )
    return [(row[0], row[1] is not None) for row in found]


async def test_h5_the_call_is_made_once_a_person_of_the_chat_allows_it(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="I will.", tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    await slack.user_says(chat, alice, "ship it")
    (approval,) = await asked(slack, chat)
    (question,) = [m.text for m in slack.sent(chat) if "May I" in m.text]
    assert "Deploy shop v2 to production" in question
    assert "deploy" in question
    assert "```\nshop v2\n```" in question
    await parked(daemon)
    owners = await daemon.store.read(
        lambda tx: tx.conn.execute(select(sessions.c.owner)).scalars().all()
    )
    assert owners == [None]
    assert deploy.made == []
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("Shipped.", channel=chat)
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]
    assert await daemon.store.read(rows) == [("approved", True)]
    # What is said afterwards stands below the question, where people look then.
    texts = [message.text for message in slack.sent(chat)]
    place = next(number for number, text in enumerate(texts) if "May I do this?" in text)
    assert (texts.count("I will."), texts.index("Shipped.") > place) == (1, True)
    # Used, and not to be used again.
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("approved before", channel=chat)
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]
    kinds = await daemon.store.read(
        lambda tx: tx.conn.execute(select(events.c.kind).order_by(events.c.seq)).scalars().all()
    )
    assert [kind for kind in kinds if kind.startswith("approval")] == [
        "approval_asked",
        "approval_decided",
    ]


async def test_h5_other_sessions_go_on_and_new_messages_wait_behind_the_question(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    front, back = slack.create_dm(alice), slack.create_dm(bob)
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="hello Bob"), when="anybody there")
    await slack.user_says(front, alice, "ship it")
    (approval,) = await asked(slack, front)
    await parked(daemon)
    await slack.user_says(front, alice, "and then the docs")
    await slack.user_says(back, bob, "anybody there?")
    await slack.wait_text("hello Bob", channel=back)
    counts = await daemon.store.read(inbox.count_by_state)
    assert counts == {"claimed": 1, "queued": 1, "done": 1}
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    model.expect(Reply(text="Docs too."), when="and then the docs")
    await slack.user_says(front, alice, f"!approve {approval}")
    await slack.wait_text("Docs too.", channel=front)
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]


async def test_h5_a_refusal_is_told_to_the_model_and_nothing_is_done(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="As you wish."), marker="not on a Friday")
    await slack.user_says(chat, alice, "ship it")
    await asked(slack, chat)
    await slack.user_says(chat, alice, "!deny not on a Friday")
    await slack.wait_text("As you wish.", channel=chat)
    await daemon.until_quiet()
    assert deploy.made == []
    assert await daemon.store.read(rows) == [("denied", True)]


async def test_h5_only_the_asker_and_owners_decide_and_only_in_the_asking_chat(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    olga = slack.create_user("olga", user_id=OWNER)
    channel, elsewhere = slack.create_channel("general", [alice, bob, olga]), slack.create_dm(olga)
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    root = await slack.user_says(channel, alice, "ship it", mention=True)
    (approval,) = await asked(slack, channel)
    await slack.user_says(channel, bob, f"!approve {approval}", thread_ts=root)
    await slack.wait_text("Only the person who asked", channel=channel)
    await slack.user_says(elsewhere, olga, f"!approve {approval}")
    await slack.wait_text(f"There is no question {approval} here", channel=elsewhere)
    assert await daemon.store.read(rows) == [("open", False)]
    await slack.user_says(channel, olga, "!approve", thread_ts=root)
    await slack.wait_text("Shipped.", channel=channel)
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]


async def test_h5_a_question_of_a_thread_may_be_answered_at_the_root_of_its_channel(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    root = await slack.user_says(channel, alice, "ship it", mention=True)
    (approval,) = await asked(slack, channel)
    await slack.user_says(channel, alice, f"!approve {approval}", mention=True)
    await slack.wait_text("Shipped.", channel=channel)
    await daemon.until_quiet()
    (answer,) = [message for message in slack.sent(channel) if message.text == "Shipped."]
    assert answer.thread_ts == root


async def test_h5_a_question_survives_the_end_of_every_process(
    path: Path, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="I will.", tool_calls=(call(),)), when="ship it")
    async with run_daemon(path, "worker", "slack", tools=[deploy]) as first:
        await connect(first, slack, None)
        await slack.user_says(chat, alice, "ship it")
        (approval,) = await asked(slack, chat)
        await parked(first)
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    async with run_daemon(path, "worker-2", "slack", tools=[deploy]) as second:
        await connect(second, slack, None)
        await slack.user_says(chat, alice, f"!approve {approval}")
        await slack.wait_text("Shipped.", channel=chat)
        await second.until_quiet()
    assert deploy.made == ["shop v2"]


async def test_h5_a_question_expires_by_the_clock(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="Then not."), marker="Nobody allowed this call in time")
    await slack.user_says(chat, alice, "ship it")
    (approval,) = await asked(slack, chat)
    await parked(daemon)

    def let_time_pass(tx: Transaction) -> None:
        tx.conn.execute(update(approvals).values(expires_ms=1))
        tx.conn.execute(update(sessions).values(wait_until_ms=1))

    await daemon.store.write(let_time_pass)
    await slack.wait_text("Then not.", channel=chat)
    await daemon.until_quiet()
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("The time to decide", channel=chat)
    assert deploy.made == []
    assert await daemon.store.read(rows) == [("expired", True)]


async def test_h5_what_was_allowed_counts_for_those_arguments_alone(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    model.expect(Reply(text="Hm."), marker="People were asked about other arguments")
    await slack.user_says(chat, alice, "ship it")
    (approval,) = await asked(slack, chat)
    await parked(daemon)
    await daemon.store.write(
        lambda tx: tx.conn.execute(
            update(messages)
            .where(messages.c.tool == "deploy")
            .values(arguments='{"text": "something else"}')
        )
    )
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("Hm.", channel=chat)
    await daemon.until_quiet()
    assert deploy.made == []


async def test_h5_two_questions_at_once_are_decided_one_by_one(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    calls = (call("one"), call("three", "echo"), call("two"))
    model.expect(Reply(tool_calls=calls), when="ship both")
    model.expect(Reply(text="One of them."), marker="echo of three")
    await slack.user_says(chat, alice, "ship both")
    one, two = await asked(slack, chat, 2)
    await slack.user_says(chat, alice, "!approve")
    await slack.wait_text("Several questions are open", channel=chat)
    first = await daemon.store.read(
        lambda tx: tx.conn.execute(
            select(approvals.c.question).where(approvals.c.id == one)
        ).scalar_one()
    )
    await slack.user_says(chat, alice, f"!approve {one}")
    await daemon.until(rows, lambda states: ("approved", True) in states)
    await parked(daemon)
    await slack.user_says(chat, alice, f"!deny {two}")
    await slack.wait_text("One of them.", channel=chat)
    await daemon.until_quiet()
    assert deploy.made == ["one" if "Deploy one" in first else "two"]
    assert sum("May I do this?" in message.text for message in slack.sent(chat)) == 2


async def test_h5_a_stop_takes_the_question_back(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call(),)), when="ship it")
    await slack.user_says(chat, alice, "ship it")
    (approval,) = await asked(slack, chat)
    await parked(daemon)
    await slack.user_says(chat, alice, "stop")
    await slack.wait_text("Stopped.", channel=chat)
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("taken back", channel=chat)
    model.expect(Reply(text="Nothing was shipped."), when="what happened")
    await slack.user_says(chat, alice, "what happened?")
    await slack.wait_text("Nothing was shipped.", channel=chat)
    await daemon.until_quiet()
    assert deploy.made == []
    assert await daemon.store.read(rows) == [("cancelled", False)]
