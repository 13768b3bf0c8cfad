"""Events, commands and presses as signed posts to a request URL."""

import json

from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator

from .clients import receiver


async def test_signed_events_reach_the_request_url(slack: SlackSimulator) -> None:
    async with receiver(slack) as (url, seen):
        http = await slack.use_http(url)
        assert await http.verify_url(slack.verification_token)
        ts = await slack.user_says("general", "alice", "hi", mention=True, order="mention_first")
        await slack.wait_settled()
    assert [body["event"]["type"] for _, body in seen] == ["app_mention", "message"]
    assert {body["event"]["ts"] for _, body in seen} == {ts}


async def test_a_failed_post_is_repeated_with_slacks_retry_headers(
    slack: SlackSimulator,
) -> None:
    async with receiver(slack, [500, 302]) as (url, seen):
        await slack.use_http(url)
        await slack.user_says("general", "alice", "hi")
        await slack.wait_settled()
    retries = [
        (head.get("X-Slack-Retry-Num"), head.get("X-Slack-Retry-Reason")) for head, _ in seen
    ]
    assert retries == [(None, None), ("1", "http_error"), ("2", "too_many_redirects")]
    assert len({body["event_id"] for _, body in seen}) == 1


async def test_no_retry_stops_the_repeats(slack: SlackSimulator) -> None:
    async with receiver(slack, [418]) as (url, seen):
        await slack.use_http(url)
        await slack.user_says("general", "alice", "hi")
        await slack.wait_settled()
    assert len(seen) == 1
    assert slack.unacked()[0].state == "lost"


async def test_an_app_that_is_down_costs_the_event_after_three_retries(
    slack: SlackSimulator,
) -> None:
    async with receiver(slack) as (url, _):
        await slack.use_http(url)
    await slack.user_says("general", "alice", "hi")
    await slack.wait_settled()
    assert slack.unacked()[0].reasons == ["connection_failed"] * 4


async def test_a_skewed_clock_or_a_forged_signature_is_rejected_by_the_sdk(
    slack: SlackSimulator,
) -> None:
    async with receiver(slack) as (url, seen):
        http = await slack.use_http(url)
        forged = await http.post(url, b"{}", signature="v0=00")
        http.clock_skew_s = -600
        late = await http.post(url, b"{}")
    assert (forged.status, late.status) == (401, 401)
    assert seen == []


async def test_commands_and_presses_travel_as_signed_forms(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    async with receiver(slack) as (url, seen):
        await slack.use_http(url)
        await slack.slash_command("general", "alice", "robot", "status")
        ts = await slack.user_says("general", "alice", "hi")
        await slack.message_shortcut("general", ts, "alice", "ask_about_this")
        await slack.wait_settled()
    forms = [body for head, body in seen if "form" in head["Content-Type"]]
    command = next(form for form in forms if "command" in form)
    assert (command["command"], command["text"]) == ("/robot", "status")
    shortcut = json.loads(next(form for form in forms if "payload" in form)["payload"])
    assert (shortcut["type"], shortcut["message"]["text"]) == ("message_action", "hi")
