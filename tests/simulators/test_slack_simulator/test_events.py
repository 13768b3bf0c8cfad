"""What people do, and the events Slack makes of it."""

from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator, SlashTextRefused

from .clients import connected, types


@pytest.mark.parametrize("order", ["message_first", "mention_first"])
async def test_a_mention_comes_as_two_events_of_one_post_in_the_chosen_order(
    slack: SlackSimulator, order: Any
) -> None:
    async with connected(slack) as seen:
        ts = await slack.user_says("general", "alice", "hi <b>", mention=True, order=order)
        await slack.wait_settled()
    expected = ["message", "app_mention"]
    assert types(seen) == (expected if order == "message_first" else expected[::-1])
    events = {request.payload["event"]["type"]: request.payload for request in seen}
    message, mention = events["message"]["event"], events["app_mention"]["event"]
    assert message["ts"] == mention["ts"] == ts
    assert message["text"] == mention["text"] == f"<@{slack.bot.id}> hi &lt;b&gt;"
    assert message["channel_type"] == "channel"
    assert "channel_type" not in mention
    assert events["message"]["event_id"] != events["app_mention"]["event_id"]


async def test_a_dm_comes_as_one_message_even_with_a_mention(slack: SlackSimulator) -> None:
    dm = slack.create_dm("alice")
    async with connected(slack) as seen:
        await slack.user_says(dm, "alice", "hi", mention=True)
        await slack.wait_settled()
    assert types(seen) == ["message"]
    assert seen[0].payload["event"]["channel_type"] == "im"
    assert dm.startswith("D")


async def test_a_bot_that_is_not_in_the_channel_only_hears_its_mentions(
    slack: SlackSimulator,
) -> None:
    slack.create_channel("outside", ["alice"], with_bot=False)
    await slack.user_says("outside", "alice", "nothing")
    await slack.user_says("outside", "alice", "you there?", mention=True)
    assert [each.event["type"] for each in slack.deliveries()] == ["app_mention"]


async def test_replies_broadcasts_me_messages_edits_and_deletions_have_their_shapes(
    slack: SlackSimulator,
) -> None:
    root = await slack.user_says("general", "alice", "root")
    reply = await slack.user_says("general", "bob", "reply", thread_ts=root)
    loud = await slack.user_says("general", "bob", "loud", thread_ts=root, broadcast=True)
    me = await slack.user_says("general", "bob", "waves", me=True)
    await slack.edit_message("general", reply, "better")
    await slack.delete_message("general", root)
    events = {each.event["ts"]: each.event for each in slack.deliveries()}
    alice = slack.workspace.find_user("alice").id
    assert (events[reply]["thread_ts"], events[reply]["parent_user_id"]) == (root, alice)
    assert events[loud]["subtype"] == "thread_broadcast"
    assert events[loud]["root"]["ts"] == root
    assert events[me]["subtype"] == "me_message"
    changed, deleted = slack.deliveries()[-2].event, slack.deliveries()[-1].event
    assert (changed["subtype"], changed["message"]["text"]) == ("message_changed", "better")
    assert changed["previous_message"]["text"] == "reply"
    assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", root)
    assert slack.transcript("general")[0]["subtype"] == "tombstone"


async def test_own_posts_and_other_bots_are_delivered_too(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    own = (await client.chat_postMessage(channel="#general", text="own"))["ts"]
    modern = await slack.bot_says("general", "beep")
    classic = await slack.bot_says("general", "boop", classic=True)
    events = {each.event["ts"]: each.event for each in slack.deliveries()}
    assert events[own]["bot_id"] == slack.bot.bot_id
    assert events[own]["user"] == slack.bot.id
    assert events[modern]["bot_id"] not in {"", slack.bot.bot_id}
    assert "subtype" not in events[modern]
    assert events[classic]["subtype"] == "bot_message"
    assert "user" not in events[classic]


async def test_text_that_begins_with_a_slash_is_refused_as_by_slacks_client(
    slack: SlackSimulator,
) -> None:
    with pytest.raises(SlashTextRefused, match="/stop is not a valid command"):
        await slack.user_says("general", "alice", "/stop now")
    await slack.user_says("general", "alice", "/stop now", mention=True)
    assert slack.deliveries()[0].event["text"].endswith("> /stop now")


async def test_an_ack_with_text_answers_a_slash_command_to_its_user_only(
    slack: SlackSimulator,
) -> None:
    async with connected(slack, lambda _request: {"text": "helped"}) as seen:
        delivery = await slack.slash_command("general", "alice", "/robot", "help")
        await slack.wait_settled()
    assert seen[0].type == "slash_commands"
    assert seen[0].accepts_response_payload is True
    assert (seen[0].payload["command"], seen[0].payload["text"]) == ("/robot", "help")
    assert "thread_ts" not in seen[0].payload
    assert delivery.ack_payload == {"text": "helped"}
    (answer,) = slack.ephemerals()
    assert (answer.text, answer.ephemeral_to) == ("helped", seen[0].payload["user_id"])


async def test_a_button_that_is_shown_can_be_pressed_and_its_message_replaced(
    slack: SlackSimulator, client: AsyncWebClient, session: aiohttp.ClientSession
) -> None:
    button = {
        "type": "button",
        "action_id": "yes",
        "value": "42",
        "text": {"type": "plain_text", "text": "Yes"},
    }
    posted = await client.chat_postMessage(
        channel="#general", text="sure?", blocks=[{"type": "actions", "elements": [button]}]
    )
    async with connected(slack) as seen:
        with pytest.raises(LookupError, match="no button 'no'"):
            await slack.press_button("general", posted["ts"], "alice", "no")
        await slack.press_button("general", posted["ts"], "alice", "yes")
        await slack.wait_settled()
    payload = next(request.payload for request in seen if request.type == "interactive")
    assert payload["actions"][0]["value"] == "42"
    body = {"replace_original": True, "text": "approved"}
    for _ in range(5):
        async with session.post(payload["response_url"], json=body) as response:
            assert response.status == 200
    async with session.post(payload["response_url"], json=body) as response:
        assert (await response.json())["error"] == "used_url"
    assert slack.sent()[0].text == "approved"


async def test_a_message_in_an_assistant_dm_always_stands_in_a_thread(
    slack: SlackSimulator,
) -> None:
    dm = slack.create_dm("alice", assistant=True)
    ts = await slack.user_says(dm, "alice", "hi")
    started, message = (each.event for each in slack.deliveries())
    assert started["type"] == "assistant_thread_started"
    assert message["ts"] == ts
    assert message["thread_ts"] == started["assistant_thread"]["thread_ts"]
    assert message["parent_user_id"] == slack.bot.id
