"""Connections, tickets, envelopes, acks and retries of Socket Mode."""

from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import FOREVER, SlackSimulator

from .clients import WAIT_S, connected, error_of, types


async def test_an_event_without_ack_is_sent_again_with_attempt_and_reason(
    slack: SlackSimulator,
) -> None:
    def third_time(request: SocketModeRequest) -> dict[str, Any] | None:
        return {} if request.retry_attempt == 2 else None

    async with connected(slack, third_time) as seen:
        await slack.user_says("general", "alice", "hi")
        await slack.wait_settled()
    assert [request.retry_attempt for request in seen] == [0, 1, 2]
    assert [request.retry_reason for request in seen] == ["", "timeout", "timeout"]
    assert len({request.payload["event_id"] for request in seen}) == 1
    assert slack.acked()[0].attempts == 3


async def test_an_event_never_acked_is_given_up_after_three_retries(
    slack: SlackSimulator,
) -> None:
    async with connected(slack, lambda _request: None) as seen:
        await slack.user_says("general", "alice", "hi")
        await slack.wait_settled()
    assert len(seen) == 4
    assert [each.state for each in slack.unacked()] == ["lost"]


async def test_events_wait_for_the_first_connection_and_keep_their_order(
    slack: SlackSimulator,
) -> None:
    texts = [f"{number}" for number in range(200)]
    for text in texts:
        await slack.user_says("general", "alice", text)
    async with connected(slack) as seen:
        await slack.wait_settled()
    assert [request.payload["event"]["text"] for request in seen] == texts


async def test_two_connections_share_the_events(slack: SlackSimulator) -> None:
    async with connected(slack) as one, connected(slack) as two:
        await slack.wait_connected(2)
        for number in range(4):
            await slack.user_says("general", "alice", f"{number}")
        await slack.wait_settled()
    assert (len(one), len(two)) == (2, 2)


async def test_a_ticket_opens_one_connection_only(
    slack: SlackSimulator, client: AsyncWebClient, session: aiohttp.ClientSession
) -> None:
    url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
    async with session.ws_connect(url) as socket:
        hello = await socket.receive_json()
        assert hello["type"] == "hello"
        assert hello["num_connections"] == 1
        assert hello["connection_info"] == {"app_id": slack.workspace.app_id}
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url)
        assert refused.value.status == 403


async def test_the_eleventh_connection_is_sent_away(
    slack: SlackSimulator, client: AsyncWebClient, session: aiohttp.ClientSession
) -> None:
    sockets = []
    for _ in range(11):
        url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
        sockets.append(await session.ws_connect(url))
    frames = [await socket.receive_json() for socket in sockets]
    assert [frame["type"] for frame in frames] == ["hello"] * 10 + ["disconnect"]
    assert frames[-1]["reason"] == "too_many_websockets"
    for socket in sockets:
        await socket.close()


@pytest.mark.parametrize(
    "reason", ["warning", "refresh_requested", "link_disabled", "too_many_websockets"]
)
async def test_the_client_comes_back_after_each_disconnect_and_nothing_is_lost(
    slack: SlackSimulator, reason: Any
) -> None:
    async with connected(slack) as seen:
        await slack.wait_connected()
        await slack.disconnect(reason)
        await slack.user_says("general", "alice", "after")
        await slack.wait_settled()
    assert [request.payload["event"]["text"] for request in seen] == ["after"]
    assert slack.socket_mode.opened == 2


async def test_an_event_on_a_cut_connection_comes_again_on_the_next(
    slack: SlackSimulator,
) -> None:
    def second_time(request: SocketModeRequest) -> dict[str, Any] | None:
        return {} if request.retry_attempt else None

    async with connected(slack, second_time, ping_interval=0.1) as seen:
        await slack.wait_connected()
        await slack.user_says("general", "alice", "hi")
        await slack.wait_for(lambda: slack.deliveries()[0].attempts == 1)
        await slack.drop_connection()
        await slack.wait_settled()
    assert len({request.payload["event_id"] for request in seen}) == 1
    assert slack.socket_mode.opened == 2


async def test_a_link_without_pongs_is_given_up_by_the_client(slack: SlackSimulator) -> None:
    async with connected(slack, ping_interval=0.05):
        await slack.wait_connected()
        slack.socket_mode.answers_pings = False
        await slack.wait_for(lambda: slack.socket_mode.opened >= 2, timeout_s=WAIT_S)


async def test_junk_frames_and_unknown_events_do_not_end_the_connection(
    slack: SlackSimulator,
) -> None:
    async with connected(slack) as seen:
        await slack.wait_connected()
        await slack.send_raw_frame("{not json")
        await slack.send_event({"type": "brand_new_event", "text": "x" * 300_000})
        await slack.wait_settled()
    assert types(seen) == ["brand_new_event"]


async def test_opening_a_connection_can_fail_in_slacks_ways(
    slack: SlackSimulator, client: AsyncWebClient
) -> None:
    for how in ("ratelimited:1", "error:invalid_auth"):
        slack.fail_next("apps.connections.open", how)
        call = client.apps_connections_open(app_token=slack.app_token)
        assert await error_of(call) == how.partition(":")[2].replace("1", "ratelimited")
    slack.fail_next("apps.connections.open", "http:500", times=FOREVER)
    for _ in range(2):
        with pytest.raises(SlackApiError) as broken:
            await client.apps_connections_open(app_token=slack.app_token)
        assert broken.value.response.status_code == 500


async def test_events_are_redelivered_under_the_same_or_a_new_id_and_out_of_order(
    slack: SlackSimulator,
) -> None:
    async with connected(slack) as seen:
        ts = await slack.user_says("general", "alice", "one")
        await slack.redeliver(ts)
        await slack.redeliver(ts, new_event_id=True)
        await slack.wait_settled()
        ids = [request.payload["event_id"] for request in seen]
        assert ids[0] == ids[1] != ids[2]
        assert {request.payload["event"]["ts"] for request in seen} == {ts}
        slack.hold_events()
        await slack.user_says("general", "alice", "two")
        await slack.user_says("general", "alice", "three")
        slack.release_events("reversed")
        await slack.wait_settled()
    assert [request.payload["event"]["text"] for request in seen[3:]] == ["three", "two"]
