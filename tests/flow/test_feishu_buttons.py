"""Buttons on Feishu's cards: as good as typing, answered at once, gone when they did their work."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.daemon import Daemon
from tests.flow.feishu_ground import TRANSPORTS, feishu_daemon
from tests.simulators.feishu import FeishuSimulator, SentMessage
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.tools import Deploy

BUTTONS = ("Approve", "For this conversation", "For 1 hour", "Deny")


@pytest.fixture
def deploy() -> Deploy:
    return Deploy()


@pytest.fixture(params=TRANSPORTS)
async def daemon(
    tmp_path: Path,
    feishu: FeishuSimulator,
    model: ModelSimulator,
    deploy: Deploy,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Daemon]:
    async with feishu_daemon(tmp_path, feishu, model, request.param, tools=[deploy]) as running:
        yield running


async def asked(
    feishu: FeishuSimulator, model: ModelSimulator, chat: str, thread: str = ""
) -> SentMessage:
    """Alice waits for an approval; the question with its buttons."""
    call = ToolCall(name="deploy", arguments={"text": "shop v2"})
    model.expect(Reply(tool_calls=(call,)), when="ship it")
    await feishu.user_says(chat, "alice", "ship it", mention=True, thread=thread)
    question = await feishu.wait_text("May I do this?", chat=chat)
    assert question.buttons == BUTTONS
    return question


async def without_buttons(feishu: FeishuSimulator, question: SentMessage) -> SentMessage:
    """Wait until a question has none; as it stands then."""

    def look() -> SentMessage | None:
        found = next(m for m in feishu.sent() if m.id == question.id)
        return None if found.buttons else found

    return await feishu.wait_for(look, what="a card without buttons")


@pytest.mark.parametrize("where", ["dm", "group", "topic"])
async def test_a_press_approves_a_call_once_and_takes_the_buttons_off(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, deploy: Deploy, where: str
) -> None:
    chat = feishu.create_dm("alice") if where == "dm" else "oc_team"
    root = await feishu.user_says(chat, "bob", "the shop") if where == "topic" else ""
    question = await asked(feishu, model, chat, root)
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    press = await feishu.press_button(question.id, "alice", "Approve")
    await feishu.wait_text("Shipped.", chat=chat)
    await press.settled.wait()
    assert press.answer == {"toast": {"type": "success", "content": "Approved: deploy."}}
    after = await feishu.wait_text("Approved by alice.", chat=chat)
    assert (after.id, after.buttons) == (question.id, ())
    await feishu.redeliver(press)
    await feishu.redeliver(press, new_event_id=True)
    await feishu.wait_settled()
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]
    assert {m.thread_id for m in feishu.sent(chat)} == {question.thread_id}
    assert bool(question.thread_id) is (where == "topic")
    assert len([m for m in feishu.sent(chat) if "Approved: deploy" in m.text]) == 1
    assert feishu.unacked() == []


@pytest.mark.parametrize(
    ("label", "ending"),
    [
        ("For this conversation", "Approved by alice for this conversation."),
        ("For 1 hour", "Approved by alice until "),
    ],
)
async def test_a_press_approves_the_same_call_for_longer_until_that_is_taken_back(
    daemon: Daemon,
    feishu: FeishuSimulator,
    model: ModelSimulator,
    deploy: Deploy,
    label: str,
    ending: str,
) -> None:
    question = await asked(feishu, model, "oc_team")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    press = await feishu.press_button(question.id, "alice", label)
    await feishu.wait_text("Shipped.", chat="oc_team")
    await press.settled.wait()
    assert press.answer["toast"]["type"] == "success"
    assert ending in (await without_buttons(feishu, question)).text
    call = ToolCall(name="deploy", arguments={"text": "shop v2"})
    model.expect(Reply(tool_calls=(call,)), when="once more")
    model.expect(Reply(text="Shipped twice."), when="once more")
    await feishu.user_says("oc_team", "alice", "once more", mention=True)
    await feishu.wait_text("Shipped twice.", chat="oc_team")
    assert deploy.made == ["shop v2", "shop v2"]
    await feishu.user_says("oc_team", "alice", "/approve list", mention=True)
    listed = await feishu.wait_text("Allowed here without asking again", chat="oc_team")
    (approval,) = re.findall(r"([0-9a-f]{8})`? deploy, until .*: Deploy shop v2", listed.text)
    await feishu.user_says("oc_team", "alice", f"/deny {approval}", mention=True)
    await feishu.wait_text("not allowed any longer", chat="oc_team")
    model.expect(Reply(tool_calls=(call,)), when="and again")
    model.expect(Reply(text="Then not."), marker="A person refused this call")
    await feishu.user_says("oc_team", "alice", "and again", mention=True)
    asked_again = await feishu.wait_for(
        lambda: next((m for m in feishu.sent("oc_team") if m.buttons == BUTTONS), None)
    )
    await feishu.press_button(asked_again.id, "alice", "Deny")
    await feishu.wait_text("Then not.", chat="oc_team")
    await daemon.until_quiet()


async def test_a_press_of_somebody_else_decides_nothing_and_leaves_the_buttons(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    question = await asked(feishu, model, "oc_team")
    press = await feishu.press_button(question.id, "bob", "Approve")
    await feishu.wait_text("Only the person who asked", chat="oc_team")
    await press.settled.wait()
    assert press.answer["toast"]["type"] == "info"
    assert deploy.made == []
    model.expect(Reply(text="Then not."), marker="A person refused this call")
    await feishu.press_button(question.id, "alice", "Deny")
    await feishu.wait_text("Then not.", chat="oc_team")
    await without_buttons(feishu, question)
    await daemon.until_quiet()
    assert deploy.made == []


async def test_buttons_that_could_not_be_taken_off_go_at_the_next_try(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    question = await asked(feishu, model, "oc_team")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    feishu.fail_next("message.patch", "http:502")
    await feishu.press_button(question.id, "alice", "Approve")
    await feishu.wait_text("Shipped.", chat="oc_team")
    after = await without_buttons(feishu, question)
    assert after.text.endswith("Approved by alice.")
    await feishu.user_says("oc_team", "alice", "/deny", mention=True)
    await feishu.wait_text("no open question", chat="oc_team")
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]


async def test_a_question_that_cannot_be_changed_any_more_is_left_as_it_is(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    question = await asked(feishu, model, "oc_team")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    feishu.fail_next("message.patch", "error:230031")
    await feishu.press_button(question.id, "alice", "Approve")
    await feishu.wait_text("Shipped.", chat="oc_team")
    await daemon.until_quiet()
    assert sum("May I do this?" in each.text for each in feishu.sent("oc_team")) == 1
    press = await feishu.press_button(question.id, "alice", "Deny")
    await feishu.wait_text("was approved before", chat="oc_team")
    await press.settled.wait()
    assert press.answer["toast"]["content"] == "deploy was approved before."
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]


async def test_a_card_that_feishu_refuses_becomes_a_question_without_buttons(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    feishu.fail_next("message.reply", "error:230099")
    call = ToolCall(name="deploy", arguments={"text": "shop v2"})
    model.expect(Reply(tool_calls=(call,)), when="ship it")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    await feishu.user_says("oc_team", "alice", "ship it", mention=True)
    question = await feishu.wait_text("May I do this?")
    assert (question.kind, question.buttons) == ("post", ())
    await feishu.user_says("oc_team", "alice", "/approve", mention=True)
    await feishu.wait_text("Shipped.")
    await daemon.until_quiet()


async def test_a_card_that_was_forwarded_commands_nothing_elsewhere(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    question = await asked(feishu, model, "oc_team")
    elsewhere = feishu.create_group("elsewhere", ["alice"])
    value = next(iter(feishu.buttons(question.id).values()))
    posted = await feishu.user_says(elsewhere, "alice", "look at this card")
    press = await feishu.press_button(posted, "alice", value)
    await feishu.wait_settled()
    assert (press.state, press.answer) == ("acked", {})
    assert deploy.made == []
    model.expect(Reply(text="Then not."), marker="A person refused this call")
    await feishu.press_button(question.id, "alice", "Deny")
    await feishu.wait_text("Then not.")
    await daemon.until_quiet()


async def test_one_of_several_conversations_is_stopped_and_only_its_button_goes(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    roots = [await feishu.user_says("oc_team", "bob", name) for name in ("first", "second")]
    gates = [model.hold(when=name) for name in ("job one", "job two")]
    model.expect(Reply(text="two done"), when="job two")
    for gate, root, name in zip(gates, roots, ("job one", "job two"), strict=True):
        await feishu.user_says("oc_team", "alice", name, mention=True, thread=root)
        await gate.reached
    await feishu.user_says("oc_team", "alice", "/status", mention=True)
    listed = await feishu.wait_text("are running", chat="oc_team")
    assert listed.buttons == ("Stop 1", "Stop 2")
    await feishu.press_button(listed.id, "alice", "Stop 1")
    await feishu.wait_text("Stopped.", chat="oc_team")
    await feishu.wait_for(
        lambda: next(m for m in feishu.sent() if m.id == listed.id).buttons == ("Stop 2",)
    )
    gates[1].release()
    await feishu.wait_text("two done", chat="oc_team")
    await daemon.until_quiet()
