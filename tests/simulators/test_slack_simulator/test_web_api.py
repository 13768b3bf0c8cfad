"""What the bot does through the Web API, and what Slack refuses."""

import json
from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator, Upload

from .clients import error_of


async def test_auth_test_names_the_bot(slack: SlackSimulator, client: AsyncWebClient) -> None:
    answer = await client.auth_test()
    assert answer["user_id"] == slack.bot.id
    assert answer["bot_id"] == slack.bot.bot_id
    assert "chat:write" in answer.headers["X-OAuth-Scopes"]


async def test_a_post_its_edit_and_its_replies_are_stored_as_slack_stores_them(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    channel = slack.conversation("general").id
    nonce = {"event_type": "sent", "event_payload": {"nonce": "n1"}}
    root = await client.chat_postMessage(channel=channel, text="one", metadata=nonce)
    reply = await client.chat_postMessage(channel=channel, text="two", thread_ts=root["ts"])
    await client.chat_update(channel=channel, ts=reply["ts"], text="two, better")
    plain = await client.conversations_replies(channel=channel, ts=root["ts"])
    full = await client.conversations_replies(
        channel=channel, ts=root["ts"], include_all_metadata=True
    )
    assert [m["text"] for m in plain["messages"]] == ["one", "two, better"]
    assert "metadata" not in plain["messages"][0]
    assert full["messages"][0]["metadata"] == nonce
    assert full["messages"][0]["reply_count"] == 1
    assert "edited" in full["messages"][1]
    history = await client.conversations_history(channel=channel)
    assert [m["text"] for m in history["messages"]] == ["one"]
    first, second = slack.sent(channel)
    assert (first.text, first.edits, first.thread_ts) == ("one", 0, None)
    assert (second.text, second.edits, second.thread_ts) == ("two, better", 1, root["ts"])
    assert second.revisions == ("two", "two, better")


async def test_a_history_longer_than_a_page_is_read_by_cursor(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    for number in range(5):
        await client.chat_postMessage(channel="#general", text=f"{number}")
    texts: list[str] = []
    async for answer in await client.conversations_history(
        channel=slack.conversation("general").id, limit=2
    ):
        texts += [m["text"] for m in answer["messages"]]
    assert texts == ["4", "3", "2", "1", "0"]


async def test_arguments_are_read_from_json_form_and_query(
    slack: SlackSimulator, session: aiohttp.ClientSession
) -> None:
    url = f"{slack.api_url}chat.postMessage"
    head = {"Authorization": f"Bearer {slack.bot_token}"}
    channel = slack.conversation("general").id
    blocks = [{"type": "markdown", "text": "**hi**"}]
    for keywords in (
        {"json": {"channel": channel, "blocks": blocks}},
        {"data": {"channel": channel, "blocks": json.dumps(blocks)}},
        {"params": {"channel": channel, "blocks": json.dumps(blocks)}},
    ):
        async with session.post(url, headers=head, **keywords) as response:
            assert (await response.json())["ok"] is True
    assert [message.shown for message in slack.sent()] == ["**hi**"] * 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": "C0NOWHERE"}, "channel_not_found"),
        ({"channel": "#outside"}, "not_in_channel"),
        ({"channel": "#attic"}, "is_archived"),
        ({"text": " "}, "no_text"),
        ({"thread_ts": "1700000000.000001"}, "thread_not_found"),
        ({"thread_ts": "zero"}, "invalid_thread_ts"),
        ({"text": None, "markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        (
            {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]},
            "invalid_blocks",
        ),
        ({"blocks": [{"type": "markdown", "text": "x" * 7000}] * 2}, "msg_blocks_too_long"),
        ({"metadata": {"event_type": "no payload"}}, "invalid_metadata_format"),
    ],
)
async def test_a_post_slack_would_refuse_is_refused_with_slacks_error(
    slack: SlackSimulator, client: AsyncWebClient, arguments: dict[str, Any], error: str
) -> None:
    slack.create_channel("outside", with_bot=False)
    await slack.archive(slack.create_channel("attic"))
    body = {"channel": "#general", "text": "hi", **arguments}
    assert await error_of(client.api_call("chat.postMessage", json=body)) == error
    assert slack.sent() == []


async def test_a_long_text_is_cut_when_posted_and_refused_when_edited(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    answer = await client.chat_postMessage(channel="#general", text="x" * 40_001)
    assert answer["warning"] == "message_truncated"
    assert len(slack.sent()[0].text) == 40_000
    call = client.chat_update(channel=answer["channel"], ts=answer["ts"], text="y" * 4001)
    assert await error_of(call) == "msg_too_long"


async def test_tokens_methods_and_missing_arguments_are_checked(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    assert await error_of(client.api_call("chat.nothing")) == "unknown_method"
    assert await error_of(client.api_call("chat.update", json={})) == "invalid_arguments"
    assert await error_of(client.auth_test(token="xoxb-other")) == "invalid_auth"
    wrong = client.apps_connections_open(app_token=slack.bot_token)
    assert await error_of(wrong) == "not_allowed_token_type"
    await slack.revoke_token()
    assert await error_of(client.auth_test()) == "token_revoked"
    await slack.restore_token()
    slack.web_api.scopes.discard("users:read")
    assert await error_of(client.users_info(user=slack.bot.id)) == "missing_scope"


async def test_only_own_messages_can_be_changed_and_deleted(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    channel = slack.conversation("general").id
    ts = await slack.user_says("general", "alice", "mine")
    update = client.chat_update(channel=channel, ts=ts, text="ours")
    assert await error_of(update) == "cant_update_message"
    assert await error_of(client.chat_delete(channel=channel, ts=ts)) == "cant_delete_message"
    own = (await client.chat_postMessage(channel=channel, text="own"))["ts"]
    await client.chat_delete(channel=channel, ts=own)
    assert await error_of(client.chat_delete(channel=channel, ts=own)) == "message_not_found"
    assert slack.sent() == []
    assert [message.deleted for message in slack.posted()] == [True]


async def test_a_stream_grows_refuses_edits_and_expires(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    channel = slack.conversation("general").id
    root = await slack.user_says("general", "alice", "go", mention=True)
    place: dict[str, Any] = {"channel": channel, "thread_ts": root}
    assert await error_of(client.chat_startStream(**place)) == "missing_recipient_user_id"
    stream = await client.chat_stream(
        **place,
        recipient_user_id=slack.workspace.find_user("alice").id,
        recipient_team_id=slack.workspace.team_id,
        buffer_size=1,
    )
    await stream.append(markdown_text="one ")
    await stream.append(markdown_text="two")
    assert stream.ts is not None
    edit = client.chat_update(channel=channel, ts=stream.ts, text="whole")
    assert await error_of(edit) == "streaming_state_conflict"
    await slack.expire_streams()
    assert await error_of(stream.append(markdown_text="!")) == "message_not_in_streaming_state"
    await client.chat_update(channel=channel, ts=stream.ts, text="whole")
    (message,) = slack.sent()
    assert message.revisions == ("one ", "one two", "whole")
    assert (message.thread_ts, message.streaming) == (root, False)


async def test_files_travel_both_ways(
    slack: SlackSimulator, client: AsyncWebClient, session: aiohttp.ClientSession
) -> None:
    channel = slack.conversation("general").id
    await client.files_upload_v2(
        channel=channel, filename="a.txt", content="hello", initial_comment="see"
    )
    (message,) = slack.sent()
    assert (message.text, message.files) == ("see", ("a.txt",))
    ts = await slack.user_says(
        "general", "alice", "", files=[Upload(name="b.png", content=b"\x89PNG")]
    )
    event = slack.deliveries(ts)[0].event
    assert event["subtype"] == "file_share"
    url = event["files"][0]["url_private_download"]
    async with session.get(url) as refused:
        assert (refused.status, refused.content_type) == (200, "text/html")
    head = {"Authorization": f"Bearer {slack.bot_token}"}
    async with session.get(url, headers=head) as response:
        assert response.content_type == "image/png"
        assert await response.read() == b"\x89PNG"


async def test_reactions_status_and_home_are_kept(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    channel = slack.conversation("general").id
    alice = slack.workspace.find_user("alice").id
    ts = await slack.user_says("general", "alice", "hi")
    await client.reactions_add(channel=channel, timestamp=ts, name="eyes")
    again = client.reactions_add(channel=channel, timestamp=ts, name="eyes")
    assert await error_of(again) == "already_reacted"
    await client.reactions_remove(channel=channel, timestamp=ts, name="eyes")
    gone = client.reactions_remove(channel=channel, timestamp=ts, name="eyes")
    assert await error_of(gone) == "no_reaction"
    await client.assistant_threads_setStatus(channel_id=channel, thread_ts=ts, status="thinks…")
    assert slack.workspace.thread_status == {(channel, ts): "thinks…"}
    await client.chat_postMessage(channel=channel, thread_ts=ts, text="done")
    assert slack.workspace.thread_status == {}
    await client.views_publish(user_id=alice, view={"type": "home", "blocks": []})
    assert slack.workspace.views[alice]["type"] == "home"
    opened = await client.conversations_open(users=[alice])
    assert opened["channel"]["id"].startswith("D")


async def test_an_upload_keeps_slacks_rules(
    slack: SlackSimulator, client: AsyncWebClient, session: aiohttp.ClientSession
) -> None:
    channel = slack.conversation("general").id
    reserved = await client.files_getUploadURLExternal(filename="a.txt", length=5)
    url, file = reserved["upload_url"], {"id": reserved["file_id"], "title": "a"}
    assert await error_of(
        client.files_completeUploadExternal(files=[file], channel_id=channel)
    ) == ("file_not_found"), "without its bytes"
    async with session.post(url, data=b"four") as answer:
        assert answer.status == 400
    async with session.post(url, data=b"five!") as answer:
        assert answer.status == 200
    for blocks in (
        [{"type": "markdown", "text": "a"}],
        [{"type": "rich_text", "block_id": "nonce", "elements": []}],
    ):
        call = client.files_completeUploadExternal(
            files=[file], channel_id=channel, blocks=json.dumps(blocks)
        )
        if blocks[0]["type"] == "markdown":
            assert await error_of(call) == "internal_error"
        else:
            await call
    (sent,) = slack.sent_files(channel)
    assert (sent.name, sent.title, sent.content) == ("a.txt", "a", b"five!")
    (message,) = (await client.conversations_history(channel=channel))["messages"]
    assert message["blocks"][0]["block_id"] == "nonce"
