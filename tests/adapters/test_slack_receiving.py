"""Slack's events through real Socket Mode and real signed HTTP: stored first, acknowledged then."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from adapters.slack.adapter import SlackAdapter
from clawbot.errors import ChannelBroken, StartupError
from clawbot.messages import ChatType
from tests.adapters.slack_rig import QUICK, Recorder, listening, opened, part, receiving, until
from tests.simulators.slack import FOREVER, SlackSimulator


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot", ack_timeout_s=1.0) as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_user("bob", user_id="U2")
        simulator.create_channel("general", ["U1", "U2"], channel_id="C1")
        yield simulator


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=["socket", "http"])
async def adapter(
    slack: SlackSimulator, recorder: Recorder, request: pytest.FixtureRequest
) -> AsyncIterator[SlackAdapter]:
    async with receiving(slack, recorder, request.param) as ready:
        yield ready


@pytest.fixture
async def on_socket(slack: SlackSimulator, recorder: Recorder) -> AsyncIterator[SlackAdapter]:
    async with receiving(slack, recorder, "socket") as ready:
        yield ready


# -- both ways in ----------------------------------------------------------------------------------


async def test_a_direct_message_arrives_and_is_acknowledged(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    chat = slack.create_dm("U1")
    ts = await slack.user_says(chat, "U1", "hello & <welcome>")
    await slack.wait_settled()
    (message,) = recorder.messages
    assert (message.text, message.chat_id) == ("hello & <welcome>", chat)
    assert message.chat_type is ChatType.DM
    assert message.identity == f"{chat}:{ts}"
    assert not slack.unacked()


@pytest.mark.parametrize("order", ["message_first", "mention_first"])
async def test_a_mention_arrives_as_two_copies_of_one_message(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter, order: str
) -> None:
    ts = await slack.user_says("C1", "U1", "are you there?", mention=True, order=order)
    await slack.wait_settled()
    first, second = recorder.messages
    assert first.identity == second.identity == f"C1:{ts}"
    assert first.transport_ids != second.transport_ids
    assert first.mentioned
    assert second.mentioned
    assert first.opens_thread == second.opens_thread == ts
    assert recorder.texts == ["are you there?"] * 2


async def test_what_is_not_stored_is_not_acknowledged_and_comes_again(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    recorder.refusals = 1
    await slack.user_says(slack.create_dm("U1"), "U1", "keep this")
    await recorder.until(lambda: recorder.texts == ["keep this"])
    await slack.wait_settled()
    (delivery,) = slack.deliveries()
    assert delivery.state == "acked"
    assert delivery.attempts == 2


async def test_no_ack_is_given_while_the_commit_is_under_way(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    recorder.gates["slow"] = asyncio.Event()
    dm = slack.create_dm("U1")
    await slack.user_says(dm, "U1", "slow")
    await slack.user_says("C1", "U1", "other chat", mention=True, order="message_only")
    await slack.wait_for(lambda: len(slack.acked()) == 1)
    assert recorder.texts == ["other chat"]
    assert [each.state for each in slack.deliveries()] == ["pending", "acked"]
    recorder.gates["slow"].set()
    await slack.wait_settled()
    assert not slack.unacked()


async def test_a_chat_is_committed_in_the_order_of_arrival(
    slack: SlackSimulator, recorder: Recorder, on_socket: SlackAdapter
) -> None:
    recorder.gates["0"] = asyncio.Event()
    chat = slack.create_dm("U1")
    for number in range(20):
        await slack.user_says(chat, "U1", str(number))
    await until(lambda: all(each.attempts for each in slack.deliveries()))
    recorder.gates["0"].set()
    await slack.wait_settled()
    assert recorder.texts == [str(number) for number in range(20)]


async def test_own_and_edited_and_unknown_events_are_acknowledged_and_not_heard(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    chat = slack.create_dm("U1")
    await adapter.send(part(chat, "an answer"))
    ts = await slack.user_says(chat, "U1", "no")
    await slack.edit_message(chat, ts, "yes")
    await slack.delete_message(chat, ts)
    await slack.react("C1", await slack.user_says("C1", "U1", "hm"), "U1", "eyes")
    await slack.send_event({"type": "something_new", "event_ts": "1.2"})
    await slack.send_event({"no": "type"})
    await slack.send_payload({"type": "event_callback", "event": None})
    await slack.send_payload({"type": "unheard_of"}, kind="interactive")
    await slack.wait_settled()
    assert not slack.unacked()
    assert recorder.texts == ["no", "hm"]


async def test_another_bot_is_marked(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    await slack.bot_says("C1", "alert", classic=True)
    await slack.wait_settled()
    assert recorder.messages[0].sender.is_bot


async def test_slash_words_are_heard_and_none_are_answered_with_the_usage(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    await slack.slash_command("C1", "U1", "/clawbot", "stop all")
    await slack.slash_command("C1", "U1", "/clawbot", "")
    await slack.wait_settled()
    assert not slack.unacked()
    assert [message.command_text for message in recorder.messages] == ["/stop all"]
    (usage,) = slack.ephemerals("C1")
    assert "/clawbot help" in usage.text


async def test_a_name_is_asked_for_once_and_known_from_then_on(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    await slack.user_says("C1", "U1", "ask <@U2> about <#C1>", me=True)
    await recorder.until(lambda: recorder.messages)
    first = recorder.messages[0]
    assert first.is_incomplete
    one, other = await asyncio.gather(adapter.enrich(first.raw), adapter.enrich(first.raw))
    assert one == other
    assert one.text == "ask @bob about #general"
    assert one.sender.name == "alice"
    assert not one.is_incomplete
    assert len(slack.calls("users.info")) == 2
    await slack.user_says("C1", "U2", "hello")
    await recorder.until(lambda: len(recorder.messages) == 2)
    assert recorder.messages[1].sender.name == "bob"
    assert not recorder.messages[1].is_incomplete


async def test_names_that_cannot_be_had_read_as_ids(
    slack: SlackSimulator, recorder: Recorder, adapter: SlackAdapter
) -> None:
    slack.fail_next("users.info", "error:user_not_found", FOREVER)
    slack.fail_next("conversations.info", "http:500", FOREVER)
    chat = slack.create_dm("U1")
    await slack.user_says(chat, "U1", "ask <@U2> in <#C1> of <!subteam^S9>", me=True)
    await recorder.until(lambda: recorder.messages)
    message = await adapter.enrich(recorder.messages[0].raw)
    assert message.text == "ask @U2 in #C1 of @S9"
    assert not message.is_incomplete


async def test_a_revoked_token_breaks_the_channel_visibly(
    slack: SlackSimulator, recorder: Recorder
) -> None:
    async with opened(slack) as adapter:
        task = asyncio.create_task(adapter.receive(recorder))
        await slack.wait_connected()
        await slack.revoke_token("bot", announce=True)
        with pytest.raises(ChannelBroken, match="tokens_revoked"):
            await asyncio.wait_for(task, 10)
        assert adapter.health().state == "broken"


# -- Socket Mode -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets"])
@pytest.mark.parametrize("close", [False, True])
async def test_a_disconnect_is_followed_by_a_new_connection(
    slack: SlackSimulator, recorder: Recorder, on_socket: SlackAdapter, reason: str, close: bool
) -> None:
    await slack.disconnect(reason, close=close)
    await slack.wait_for(lambda: slack.socket_mode.opened == 2)
    await slack.user_says(slack.create_dm("U1"), "U1", "still there?")
    await recorder.until(lambda: recorder.texts == ["still there?"])
    await slack.wait_for(lambda: len(slack.socket_mode.connections) == 1)
    await until(lambda: on_socket.health().state == "up")


async def test_an_envelope_under_way_is_acknowledged_before_the_old_link_closes(
    slack: SlackSimulator, recorder: Recorder, on_socket: SlackAdapter
) -> None:
    recorder.gates["slow"] = asyncio.Event()
    await slack.user_says(slack.create_dm("U1"), "U1", "slow")
    await until(lambda: slack.deliveries()[0].attempts == 1)
    await slack.disconnect("refresh_requested")
    recorder.gates["slow"].set()
    await slack.wait_settled()
    assert slack.deliveries()[0].attempts == 1
    assert not slack.unacked()


async def test_a_cut_connection_is_replaced(
    slack: SlackSimulator, recorder: Recorder, on_socket: SlackAdapter
) -> None:
    await slack.drop_connection()
    await slack.user_says(slack.create_dm("U1"), "U1", "hello?")
    await recorder.until(lambda: recorder.texts == ["hello?"])
    assert slack.socket_mode.opened == 2


async def test_a_silent_connection_is_replaced(slack: SlackSimulator, recorder: Recorder) -> None:
    async with receiving(slack, recorder, "socket", replace(QUICK, ping_s=0.3)):
        slack.socket_mode.answers_pings = False
        await slack.wait_for(lambda: slack.socket_mode.opened >= 2)
        slack.socket_mode.answers_pings = True
        await slack.user_says(slack.create_dm("U1"), "U1", "hello?")
        await recorder.until(lambda: "hello?" in recorder.texts)


async def test_a_stale_ticket_is_not_tried_for_ever(
    slack: SlackSimulator, on_socket: SlackAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_url = slack.socket_mode.new_url

    def stale_once(base_ws_url: str) -> str:
        monkeypatch.setattr(slack.socket_mode, "new_url", new_url)
        url = new_url(base_ws_url)
        slack.socket_mode.expire_tickets()
        return url

    monkeypatch.setattr(slack.socket_mode, "new_url", stale_once)
    await slack.drop_connection()
    await slack.wait_for(lambda: slack.socket_mode.opened == 2)
    assert slack.socket_mode.refused_tickets >= 1
    await until(lambda: on_socket.health().state == "up")


@pytest.mark.parametrize(
    "fault",
    ["http:500", "ratelimited:0.1", "error:internal_error", "reset_before", "html", "bad_json"],
)
async def test_a_failing_apps_connections_open_is_asked_again(
    slack: SlackSimulator, recorder: Recorder, on_socket: SlackAdapter, fault: str
) -> None:
    slack.fail_next("apps.connections.open", fault, 2)
    await slack.disconnect("refresh_requested", close=True)
    await slack.user_says(slack.create_dm("U1"), "U1", "back?")
    await recorder.until(lambda: recorder.texts == ["back?"])
    assert slack.socket_mode.opened == 2


async def test_a_process_that_hears_nothing_for_long_gives_itself_up(
    slack: SlackSimulator, recorder: Recorder
) -> None:
    timings = replace(QUICK, deaf_s=0.3, connect_s=0.1)
    async with opened(slack, timings) as adapter:
        task = asyncio.create_task(adapter.receive(recorder))
        await slack.wait_connected()
        slack.fail_next("apps.connections.open", "http:503", times=FOREVER)
        await slack.drop_connection()
        with pytest.raises(StartupError, match=r"no connection to Slack .* starting anew"):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("announced", ["app_uninstalled", "tokens_revoked"])
async def test_an_app_that_is_removed_ends_visibly(
    slack: SlackSimulator, recorder: Recorder, announced: str
) -> None:
    async with opened(slack) as adapter:
        task = asyncio.create_task(adapter.receive(recorder))
        await slack.wait_connected()
        tokens = {"oauth": [], "bot": [slack.bot.id]}
        await slack.send_event({"type": announced, "tokens": tokens})
        with pytest.raises(ChannelBroken, match=announced):
            await asyncio.wait_for(task, 10)
        assert adapter.health().state == "broken"


async def test_a_switched_off_socket_mode_breaks_the_channel(
    slack: SlackSimulator, recorder: Recorder
) -> None:
    async with opened(slack) as adapter:
        task = asyncio.create_task(adapter.receive(recorder))
        await slack.wait_connected()
        await slack.disconnect("link_disabled")
        with pytest.raises(ChannelBroken, match="switched off"):
            await asyncio.wait_for(task, 10)
        assert adapter.health().state == "broken"


async def test_a_refused_app_token_breaks_the_channel_while_it_runs(
    slack: SlackSimulator, recorder: Recorder
) -> None:
    async with opened(slack) as adapter:
        task = asyncio.create_task(adapter.receive(recorder))
        await slack.wait_connected()
        await slack.revoke_token("app", error="invalid_auth")
        await slack.drop_connection()
        with pytest.raises(ChannelBroken, match="app_token"):
            await asyncio.wait_for(task, 10)


async def test_junk_frames_disturb_nobody(
    slack: SlackSimulator, recorder: Recorder, on_socket: SlackAdapter
) -> None:
    for frame in ("Ping from applink-1", "{", "[]", "null", '{"type":"new"}', '{"envelope_id":1}'):
        await slack.send_raw_frame(frame)
    await slack.user_says(slack.create_dm("U1"), "U1", "still reading?")
    await recorder.until(lambda: recorder.texts == ["still reading?"])
    assert slack.socket_mode.opened == 1


async def test_closing_leaves_no_connection_behind(
    slack: SlackSimulator, recorder: Recorder
) -> None:
    for _ in range(3):
        async with receiving(slack, recorder, "socket"):
            assert len(slack.socket_mode.connections) == 1
        await slack.wait_for(lambda: not slack.socket_mode.connections)


# -- HTTP ------------------------------------------------------------------------------------------


async def test_only_what_slack_signed_is_read(slack: SlackSimulator, recorder: Recorder) -> None:
    async with (
        opened(slack, mode="http", max_body_bytes=4096) as adapter,
        listening(adapter, recorder),
    ):
        await slack.use_http(adapter.health().facts["listening"])
        url = adapter.health().facts["listening"]
        assert slack.http is not None
        assert await slack.http.verify_url("t")
        body = b'{"type":"event_callback"}'
        statuses = {
            "good": (await slack.http.post(url, body)).status,
            "unsigned": (await slack.http.post(url, body, signature="v0=00")).status,
            "non-ascii": (await slack.http.post(url, body, signature="v0=é")).status,
            "junk": (await slack.http.post(url, b"{")).status,
            "array": (await slack.http.post(url, b"[]")).status,
            "latin": (await slack.http.post(url, b"\xff")).status,
            "huge": (await slack.http.post(url, b"x" * 8192)).status,
        }
        slack.http.clock_skew_s = -400
        statuses["old"] = (await slack.http.post(url, body)).status
        assert statuses == {
            "good": 200,
            "unsigned": 401,
            "non-ascii": 401,
            "junk": 400,
            "array": 400,
            "latin": 400,
            "huge": 413,
            "old": 401,
        }
    assert recorder.messages == []


async def test_scopes_that_are_missing_are_told_while_it_works(slack: SlackSimulator) -> None:
    recorder = Recorder()
    async with receiving(slack, recorder, "socket") as adapter:
        assert adapter.health().detail == ""
    slack.web_api.scopes -= {"files:write", "reactions:write"}
    async with receiving(slack, recorder, "socket") as adapter:
        health = adapter.health()
        assert health.state == "up"
        assert "missing scopes: files:write, reactions:write;" in health.detail
        slack.web_api.scopes |= {"files:write", "reactions:write"}
        await adapter.check()
        assert adapter.health().detail == ""


async def test_a_taken_port_says_what_to_do(slack: SlackSimulator, recorder: Recorder) -> None:
    async with receiving(slack, recorder, "http") as first:
        port = int(first.health().facts["listening"].split(":")[2].split("/")[0])
        async with opened(slack, mode="http", listen_port=port) as second:
            with pytest.raises(StartupError, match="listen_port"):
                await second.receive(recorder)


# -- who we are ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bot", "app"])
async def test_a_refused_token_is_told_at_the_start(slack: SlackSimulator, kind: str) -> None:
    await slack.revoke_token(kind, error="invalid_auth")
    async with opened(slack) as adapter:
        with pytest.raises(ChannelBroken, match="invalid_auth"):
            await adapter.check()
        assert adapter.health().state == "broken"


async def test_nothing_is_received_before_our_own_id_is_known(
    slack: SlackSimulator, recorder: Recorder
) -> None:
    slack.fail_next("auth.test", "http:502", 2)
    async with receiving(slack, recorder, "socket") as adapter:
        assert len(slack.calls("auth.test")) == 3
        assert adapter.health().facts["user_id"] == slack.bot.id
        assert adapter.health().facts["app_id"] == slack.workspace.app_id
