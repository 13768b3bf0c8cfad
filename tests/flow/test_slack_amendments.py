"""Messages that people change or delete while they wait, and after."""

from __future__ import annotations

from clawbot.store import inbox
from tests.flow.daemon import Daemon
from tests.simulators.model import Gate, ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def busy(slack: SlackSimulator, model: ModelSimulator, chat: str, alice: str) -> Gate:
    """A turn that runs until its gate is released, so that later messages wait."""
    gate = model.hold(when="the first")
    await slack.user_says(chat, alice, "the first")
    await gate.reached
    return gate


async def waiting(daemon: Daemon, count: int) -> None:
    await daemon.until(inbox.count_by_state, lambda counts: counts.get("queued") == count)


async def test_a_waiting_question_is_answered_as_it_reads_in_the_end(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = await busy(slack, model, chat, alice)
    ts = await slack.user_says(chat, alice, "how hihg is it?")
    await waiting(daemon, 1)
    await slack.edit_message(chat, ts, "how high is <@U404> & the tower?")
    await slack.wait_settled()
    model.expect(Reply(text="One."), when="the first")
    model.expect(Reply(text="300 m."), when="how high")
    gate.release()
    await slack.wait_text("300 m.", channel=chat)
    await daemon.until_quiet()
    asked = model.requests[-1].all_text
    assert "how high is @U404 & the tower?" in asked
    assert "hihg" not in asked


async def test_a_waiting_question_that_is_deleted_is_not_answered(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = await busy(slack, model, chat, alice)
    ts = await slack.user_says(chat, alice, "forget this")
    await waiting(daemon, 1)
    await slack.delete_message(chat, ts)
    await slack.wait_settled()
    model.expect(Reply(text="One."), when="the first")
    gate.release()
    await slack.wait_text("One.", channel=chat)
    await daemon.until_quiet()
    assert [each.shown for each in slack.sent(chat)] == ["One."]
    await slack.redeliver(ts)
    await slack.wait_settled()
    await daemon.until_quiet()
    assert len(model.requests) == 1, "its event coming again does not bring it back"


async def test_what_a_turn_has_taken_up_is_left_as_it_was(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="the first")
    ts = await slack.user_says(chat, alice, "the first")
    await gate.reached
    await slack.edit_message(chat, ts, "something else")
    await slack.delete_message(chat, ts)
    await slack.wait_settled()
    model.expect(Reply(text="One."), when="the first")
    gate.release()
    await slack.wait_text("One.", channel=chat)
    await daemon.until_quiet()
    assert len(model.requests) == 1


async def test_our_own_edits_and_link_previews_change_nothing(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = await busy(slack, model, chat, alice)
    ts = await slack.user_says(chat, alice, "see https://example.com")
    await waiting(daemon, 1)
    await slack.edit_message(chat, ts, "see https://example.com")
    await slack.wait_settled()
    model.expect(Reply(text=("One. ", "Two. ", "Three.")), when="the first")
    model.expect(Reply(text="Seen."), when="see https")
    gate.release()
    await slack.wait_text("Seen.", channel=chat)
    await daemon.until_quiet()
    assert len(model.requests) == 2


async def test_an_overheard_message_is_told_as_it_reads_now_or_not_at_all(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    changed = await slack.user_says(channel, alice, "the door is blue")
    deleted = await slack.user_says(channel, alice, "my PIN is 4711")
    await daemon.until(inbox.count_by_state, lambda counts: counts == {"context": 2})
    await slack.edit_message(channel, changed, "the door is green")
    await slack.delete_message(channel, deleted)
    await slack.wait_settled()
    model.expect(Reply(text="Green."), when="which colour")
    await slack.user_says(channel, alice, "which colour?", mention=True)
    await slack.wait_text("Green.", channel=channel)
    await daemon.until_quiet()
    assert "the door is green" in model.requests[0].all_text
    assert "blue" not in model.requests[0].all_text
    assert "4711" not in model.requests[0].all_text
