"""Several accounts, several processes on one account, and other bots."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from clawbot.store import processes, sessions
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def test_two_processes_on_one_account_share_its_events_and_double_nothing(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
    )
    people = [slack.create_user(f"user{number}") for number in range(6)]
    channel = slack.create_channel("general", people)
    for number in range(6):
        model.expect(Reply(text=f"answer {number}"), when=f"question {number}")
    async with run_daemon(path, "worker", "slack") as one, run_daemon(path, "slack") as two:
        await slack.wait_connected(2)
        for number, person in enumerate(people):
            order = "message_first" if number % 2 else "mention_first"
            await slack.user_says(channel, person, f"question {number}", mention=True, order=order)
        await slack.wait_sent(6, channel=channel)
        await slack.wait_settled()
        await one.until_quiet()
        await two.until_quiet()
    assert sorted(message.text for message in slack.sent(channel)) == [
        f"answer {number}" for number in range(6)
    ]
    assert slack.unacked() == []
    used = {delivery.acks for delivery in slack.deliveries()}
    assert used == {1}


async def test_two_workspaces_in_one_daemon_are_strangers_to_each_other(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    async with SlackSimulator(seed=2) as other:
        path = write_config(
            tmp_path,
            model_url=model.base_url("openai-chat"),
            slack=slack_keys(slack, "socket", 0),
        )
        keys = "type: slack\nallow: {dm: ['*']}\n" + slack_keys(other, "socket", 0)
        with path.open("a", encoding="utf-8") as file:
            file.write("\n  slack-other:\n" + textwrap.indent(keys, "    "))
        async with run_daemon(path, "worker", "slack", "slack-other") as daemon:
            await daemon.until(
                processes.status_rows,
                lambda status: [each["state"] for each in status["channels"]] == ["up", "up"],
            )
            chats = []
            for place, word in ((slack, "here"), (other, "there")):
                alice = place.create_user("alice", user_id="U0ALICE")
                chats.append(place.create_dm(alice))
                model.expect(Reply(text=f"answer {word}"), when=f"question {word}")
                await place.user_says(chats[-1], alice, f"question {word}")
                await place.wait_text(f"answer {word}", channel=chats[-1])
            await daemon.until_quiet()
            found = await daemon.store.read(lambda tx: sessions.recent(tx, 10))
        assert {row["key"] for row in found} == {
            f"slack:{chats[0]}",
            f"slack-other:{chats[1]}",
        }
        assert len(slack.sent()) == len(other.sent()) == 1


@pytest.mark.parametrize(("keys", "answers"), [("", 0), ("\nbots: allow\nmax_bot_turns: 2", 2)])
async def test_another_bot_is_answered_only_as_often_as_it_is_allowed(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, keys: str, answers: int
) -> None:
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0) + keys,
    )
    channel = slack.create_channel("alerts")
    for number in range(answers):
        model.expect(Reply(text=f"seen {number}"), when=f"alert {number}")
    async with run_daemon(path, "worker", "slack") as daemon:
        await connect(daemon, slack, None)
        for number in range(4):
            text = f"<@{slack.bot.id}> alert {number}"
            thread = slack.transcript(channel)[0]["ts"] if number == 2 else None
            await slack.bot_says(channel, text, classic=number == 3, thread_ts=thread)
            await slack.wait_settled()
            await daemon.until_quiet()
    assert len(slack.sent(channel)) == answers
    assert len(model.requests) == answers
    assert slack.unacked() == []


GUESTS_TEAM, ORGANISATION = "T0GUESTS", "E0ORGANISATION"


@pytest.mark.parametrize("kind", ["guest", "organisation", "stranger"])
async def test_a_message_of_another_workspace_is_ours_if_our_installation_may_see_it(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, kind: str
) -> None:
    """Slack Connect names the writer's workspace outside and us under `authorizations`; an
    installation in a whole organisation has no workspace at all.
    """
    path = write_config(
        tmp_path, model_url=model.base_url("openai-chat"), slack=slack_keys(slack, "socket", 0)
    )
    guest = slack.create_user("erin", user_id="U0GUEST")
    channel = slack.create_channel("shared", [guest])
    installed = {
        "guest": {"enterprise_id": None, "team_id": slack.workspace.team_id},
        "organisation": {"enterprise_id": ORGANISATION, "team_id": None},
        "stranger": {"enterprise_id": None, "team_id": "T0STRANGER"},
    }[kind]
    bot = "U0STRANGER" if kind == "stranger" else slack.bot.id
    if kind != "stranger":
        model.expect(Reply(text="Welcome, guest."), when="may I ask")
    async with run_daemon(path, "worker", "slack") as daemon:
        await connect(daemon, slack, None)
        slack.hold_events()
        await slack.user_says(channel, guest, "may I ask?", mention=True)
        for delivery in slack.deliveries():
            delivery.payload |= {
                "team_id": GUESTS_TEAM,
                "context_team_id": installed["team_id"],
                "context_enterprise_id": installed["enterprise_id"],
                "is_ext_shared_channel": True,
                "authorizations": [{**installed, "user_id": bot, "is_bot": True}],
            }
            delivery.event["user_team"] = GUESTS_TEAM
        slack.release_events()
        await slack.wait_settled()
        await daemon.until_quiet()
    assert [sent.text for sent in slack.sent(channel)] == (
        [] if kind == "stranger" else ["Welcome, guest."]
    )
    streams = slack.calls("chat.startStream")
    assert {call.arguments["recipient_team_id"] for call in streams} <= {GUESTS_TEAM}
    assert {call.arguments["recipient_user_id"] for call in streams} <= {guest}
    assert slack.unacked() == []
