"""Feishu's events through a real long connection and real webhooks: stored first, then acked."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from adapters.feishu.adapter import FeishuAdapter
from clawbot.errors import ChannelBroken, NotLoaded, StartupError, StoreUnavailable
from clawbot.messages import Amendment, ChatType, Ignored, InboundMessage
from tests.adapters.feishu_rig import QUICK, Recorder, listening, opened, receiving, until
from tests.simulators.feishu import FOREVER, FeishuSimulator
from tests.simulators.feishu.webhook import encrypt

MODES = ["long_connection", "webhook"]


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuSimulator]:
    async with FeishuSimulator(bot_name="clawbot", ack_timeout_s=1.0) as simulator:
        simulator.create_user("alice", open_id="ou_alice")
        simulator.create_user("bob", open_id="ou_bob")
        simulator.create_group("team", ["alice", "bob"], chat_id="oc_team")
        yield simulator


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=MODES)
async def adapter(
    feishu: FeishuSimulator, recorder: Recorder, request: pytest.FixtureRequest
) -> AsyncIterator[FeishuAdapter]:
    async with receiving(feishu, recorder, request.param) as ready:
        yield ready


@pytest.fixture
async def connected(feishu: FeishuSimulator, recorder: Recorder) -> AsyncIterator[FeishuAdapter]:
    async with receiving(feishu, recorder, "long_connection") as ready:
        yield ready


# -- both ways in ----------------------------------------------------------------------------------


async def test_a_direct_message_arrives_and_is_acknowledged(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    chat = feishu.create_dm("alice")
    message_id = await feishu.user_says(chat, "alice", "hello & <welcome>")
    await feishu.wait_settled()
    (message,) = recorder.messages
    assert (message.text, message.chat_id) == ("hello & <welcome>", chat)
    assert (message.chat_type, message.identity) == (ChatType.DM, message_id)
    assert message.reply_to is None
    assert not feishu.unacked()


async def test_a_mention_in_a_group_is_one_to_us_and_is_quoted_by_the_answer(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    said = await feishu.user_says("team", "alice", "look", mention=True, mentions=["bob"])
    await feishu.user_says("team", "alice", "chatter")
    await feishu.wait_settled()
    first, second = recorder.messages
    assert (first.text, first.mentioned, first.reply_to) == ("@bob look", True, said)
    assert (second.text, second.mentioned) == ("chatter", False)


async def test_what_is_not_stored_is_not_acknowledged_and_comes_again(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    recorder.refusals = 2
    await feishu.user_says(feishu.create_dm("alice"), "alice", "keep this")
    await recorder.until(lambda: recorder.texts == ["keep this"])
    await feishu.wait_settled()
    (delivery,) = feishu.deliveries()
    assert (delivery.state, delivery.attempts) == ("acked", 3)


async def test_no_ack_is_given_while_the_commit_is_under_way(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    recorder.gates["slow"] = asyncio.Event()
    await feishu.user_says(feishu.create_dm("alice"), "alice", "slow")
    await feishu.user_says("team", "alice", "other chat", mention=True)
    await feishu.wait_for(lambda: len(feishu.acked()) == 1)
    assert recorder.texts == ["other chat"]
    assert [each.state for each in feishu.deliveries()] == ["pending", "acked"]
    recorder.gates["slow"].set()
    await feishu.wait_settled()
    assert not feishu.unacked()


async def test_a_chat_is_committed_in_the_order_of_arrival(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    recorder.gates["0"] = asyncio.Event()
    chat = feishu.create_dm("alice")
    for number in range(20):
        await feishu.user_says(chat, "alice", str(number))
    await until(lambda: all(each.attempts for each in feishu.deliveries()))
    recorder.gates["0"].set()
    await feishu.wait_settled()
    assert recorder.texts == [str(number) for number in range(20)]


async def test_what_is_no_message_is_acknowledged_and_not_heard(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    said = await feishu.user_says("team", "alice", "hi", mention=True)
    await feishu.recall(said)
    await feishu.react(said, "bob")
    await feishu.remove_bot("team")
    await feishu.add_bot("team")
    await feishu.send_event("brand.new.event_v9", {"what": "ever"})
    await feishu.send_payload({"type": "event_callback", "token": feishu.verification_token})
    await feishu.wait_settled()
    assert recorder.texts == ["hi"]
    assert not feishu.unacked()


async def test_a_button_gets_its_answer_in_time(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    said = await feishu.user_says("team", "alice", "hi")
    pressed = await feishu.press_button(said, "alice", {"key": "approve"})
    await feishu.wait_settled()
    assert (pressed.state, pressed.answer) == ("acked", {})


async def test_a_message_of_the_old_format_is_heard(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    event = {
        "type": "message",
        "app_id": feishu.app_id,
        "open_chat_id": "oc_old",
        "chat_type": "private",
        "msg_type": "text",
        "open_id": "ou_alice",
        "open_message_id": "om_old",
        "text": f'<at open_id="{feishu.bot.open_id}">@clawbot</at> still here',
    }
    token = feishu.verification_token
    payload = {"uuid": "u1", "token": token, "type": "event_callback", "event": event}
    await feishu.send_payload(payload)
    await feishu.wait_settled()
    (message,) = recorder.messages
    assert (message.text, message.mentioned) == ("still here", True)
    assert token not in message.raw


async def test_another_bot_is_told_apart_and_our_own_words_are_not_heard(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    other = feishu.create_bot("news")
    feishu.chat("team").members.add(other)
    await feishu.user_says("team", "news", "alert", mention=True)
    await feishu.user_says("team", feishu.bot.open_id, "my own words")
    await feishu.wait_settled()
    (message,) = recorder.messages
    assert (message.sender.id, message.sender.is_bot, message.text) == (other, True, "alert")


@pytest.mark.parametrize("shape", [{"topics": True}, {"topic_format": True}])
async def test_the_first_message_of_a_topic_and_the_later_ones_belong_together(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter, shape: Any
) -> None:
    chat = feishu.create_group("topics", ["alice"], **shape)
    starter = await feishu.user_says(chat, "alice", "new topic", mention=True)
    await feishu.user_says(chat, "alice", "more", mention=True, thread=starter)
    await feishu.wait_settled()
    first, second = recorder.messages
    assert (first.thread, first.opens_thread, first.reply_to) == (None, starter, starter)
    assert second.thread is not None
    assert second.thread.startswith("omt_")
    assert (second.thread_root, second.reply_to) == (starter, starter)


async def test_a_chat_whose_kind_is_not_told_is_an_ordinary_group(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    feishu.fail_next("chat.get", "error:232006")
    await feishu.user_says("team", "alice", "hi", mention=True)
    await feishu.wait_settled()
    (message,) = recorder.messages
    assert (message.thread, message.opens_thread) == (None, None)


async def test_a_chat_is_asked_for_once_and_again_when_it_was_changed(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    for number in range(3):
        await feishu.user_says("team", "alice", str(number))
    await feishu.wait_settled()
    assert len(feishu.calls("chat.get")) == 1
    feishu.chat("team").topic_format = True
    await feishu.send_event("im.chat.updated_v1", {"chat_id": "oc_team"})
    await feishu.wait_settled()
    said = await feishu.user_says("team", "alice", "as a topic")
    await feishu.wait_settled()
    assert recorder.messages[-1].opens_thread == said


# -- the long connection ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["dropped", "closed"])
async def test_a_lost_connection_is_made_again_and_nothing_is_lost(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter, how: str
) -> None:
    chat = feishu.create_dm("alice")
    await feishu.user_says(chat, "alice", "before")
    await feishu.wait_settled()
    opened_before = feishu.sockets.opened
    await (feishu.drop_connection() if how == "dropped" else feishu.close_connections())
    await feishu.user_says(chat, "alice", "during")
    await feishu.wait_settled()
    assert recorder.texts == ["before", "during"]
    assert feishu.sockets.opened > opened_before


async def test_a_connection_that_ends_before_the_ack_brings_the_event_again(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    recorder.gates["twice"] = asyncio.Event()
    await feishu.user_says(feishu.create_dm("alice"), "alice", "twice")
    await until(lambda: feishu.deliveries()[0].attempts)
    await feishu.drop_connection()
    recorder.gates["twice"].set()
    await feishu.wait_settled()
    assert recorder.texts == ["twice", "twice"]
    assert len({message.identity for message in recorder.messages}) == 1


@pytest.mark.parametrize("order", ["same", "reversed"])
async def test_an_event_in_many_frames_is_joined_and_acknowledged_once(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter, order: str
) -> None:
    feishu.fragment(100, "reversed" if order == "reversed" else "same")
    await feishu.user_says(feishu.create_dm("alice"), "alice", "长" * 500)
    await feishu.wait_settled()
    assert recorder.texts == ["长" * 500]
    assert [each.attempts for each in feishu.deliveries()] == [1]
    assert not feishu.sockets.junk


async def test_an_event_that_lacks_a_frame_comes_again(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    feishu.fragment(200, "lost")
    await feishu.user_says(feishu.create_dm("alice"), "alice", "whole again")
    await feishu.wait_settled()
    assert recorder.texts == ["whole again"]
    assert [each.attempts for each in feishu.deliveries()] == [2]


@pytest.mark.parametrize("payload", [b"{}", b'{"PingInterval": 0}', b"no json", b""])
async def test_a_strange_client_configuration_changes_nothing(
    feishu: FeishuSimulator, recorder: Recorder, payload: bytes
) -> None:
    feishu.sockets.client_config = {"PingInterval": 1}
    feishu.sockets.pong_payload = payload
    timings = replace(QUICK, least_ping_s=0.05)
    async with receiving(feishu, recorder, "long_connection", timings):
        await feishu.sockets.send_pong(payload)
        await until(lambda: feishu.sockets.connections[0].pings >= 2)
        await feishu.drop_connection()
        await feishu.wait_for(lambda: feishu.sockets.opened >= 2)
        await feishu.user_says(feishu.create_dm("alice"), "alice", "alive")
        await feishu.wait_settled()
    assert recorder.texts == ["alive"]


async def test_a_silent_connection_is_given_up(feishu: FeishuSimulator, recorder: Recorder) -> None:
    feishu.sockets.answers_pings = False
    timings = replace(QUICK, ping_s=0.1, silence_s=0.1)
    feishu.sockets.client_config = {}
    async with receiving(feishu, recorder, "long_connection", timings) as adapter:
        await feishu.wait_for(lambda: feishu.sockets.opened >= 2)
        feishu.sockets.answers_pings = True
        await until(lambda: adapter.health().state == "up")


@pytest.mark.parametrize("code", [1, 1000040343])
async def test_a_busy_server_is_asked_again(
    feishu: FeishuSimulator, recorder: Recorder, code: int
) -> None:
    feishu.fail_next("ws.endpoint", f"error:{code}", times=3)
    async with receiving(feishu, recorder, "long_connection") as adapter:
        assert adapter.health().state == "up"
    assert len(feishu.calls("ws.endpoint")) == 4


@pytest.mark.parametrize("how", ["hang", "http:502", "html", "bad_json", "reset_before"])
async def test_a_broken_address_call_is_repeated(
    feishu: FeishuSimulator, recorder: Recorder, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.feishu.calls.CALL_TIMEOUT_S", 0.5)
    feishu.fail_next("ws.endpoint", how)
    async with receiving(feishu, recorder, "long_connection"):
        assert len(feishu.calls("ws.endpoint")) == 2


@pytest.mark.parametrize("during", ["start", "reconnect"])
@pytest.mark.parametrize(("code", "hint"), [(403, "publish the app"), (1000040344, "app_secret")])
async def test_a_refusal_for_good_ends_the_channel_with_what_to_do(
    feishu: FeishuSimulator, recorder: Recorder, during: str, code: int, hint: str
) -> None:
    async with opened(feishu, mode="long_connection") as adapter:
        if during == "start":
            feishu.fail_next("ws.endpoint", f"error:{code}", times=FOREVER)
        task = asyncio.create_task(adapter.receive(recorder))
        if during == "reconnect":
            await feishu.wait_connected()
            feishu.fail_next("ws.endpoint", f"error:{code}", times=FOREVER)
            await feishu.drop_connection()
        with pytest.raises(ChannelBroken, match=hint):
            await asyncio.wait_for(task, 10)
        assert adapter.health().state == "broken"


async def test_a_handshake_refused_with_403_ends_the_channel(
    feishu: FeishuSimulator, recorder: Recorder
) -> None:
    feishu.refuse_handshake(403, "forbidden")
    async with opened(feishu) as adapter:
        with pytest.raises(ChannelBroken, match="custom apps only"):
            await asyncio.wait_for(adapter.receive(recorder), 10)


@pytest.mark.parametrize("detail", [0, 1000040345, 1000040350])
async def test_a_handshake_refused_with_514_is_tried_again(
    feishu: FeishuSimulator, recorder: Recorder, detail: int
) -> None:
    feishu.refuse_handshake(514, "auth failed", detail=detail, times=2)
    async with receiving(feishu, recorder, "long_connection") as adapter:
        assert adapter.health().state == "up"


async def test_bytes_that_are_no_frame_disturb_nobody(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    for junk in (b"", b"\xff\xff\xff\xff", b"\x08", b"{}"):
        await feishu.sockets.send_raw(junk)
    await feishu.send_raw(b"{broken")
    await feishu.send_raw(b'{"text": "\xff"}')
    await feishu.send_raw(b"[1, 2]")
    await feishu.user_says(feishu.create_dm("alice"), "alice", "after junk")
    await feishu.wait_settled()
    assert recorder.texts == ["after junk"]
    assert not feishu.unacked()


async def test_a_burst_of_two_hundred_is_taken_in_and_acknowledged(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    chat = feishu.create_dm("alice")
    for number in range(200):
        await feishu.user_says(chat, "alice", str(number))
    await feishu.wait_settled()
    assert sorted(map(int, set(recorder.texts))) == list(range(200))
    assert not feishu.unacked()


# -- who we are ------------------------------------------------------------------------------------


async def test_nothing_is_received_before_we_know_who_we_are(
    feishu: FeishuSimulator, recorder: Recorder
) -> None:
    feishu.fail_next("bot.info", "http:502", times=3)
    async with receiving(feishu, recorder, "long_connection") as adapter:
        assert adapter.health().facts["open_id"] == feishu.bot.open_id
    names = [call.api for call in feishu.calls()]
    assert names.index("ws.endpoint") > max(i for i, name in enumerate(names) if name == "bot.info")


async def test_a_wrong_secret_is_told_with_what_to_do(
    feishu: FeishuSimulator, recorder: Recorder
) -> None:
    await feishu.change_secret("another")
    async with opened(feishu) as adapter:
        with pytest.raises(ChannelBroken, match="check app_id, app_secret and domain"):
            await adapter.check()
        assert adapter.health().state == "broken"


async def test_an_unreachable_feishu_is_no_reason_to_give_up(feishu: FeishuSimulator) -> None:
    async with opened(feishu, domain="http://127.0.0.1:9") as adapter:
        health = await adapter.check()
    assert health.state == "degraded"
    assert "before the request was sent" in health.detail


async def test_nothing_is_asked_while_nothing_happens(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    before = len(feishu.calls())
    for _ in range(50):
        connected.health()
    assert len(feishu.calls()) == before


# -- completing ------------------------------------------------------------------------------------


async def test_a_sender_gets_a_name_which_is_asked_for_once(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    chat = feishu.create_dm("alice")
    await feishu.user_says(chat, "alice", "hi")
    await feishu.wait_settled()
    (message,) = recorder.messages
    assert message.is_incomplete
    whole = await connected.enrich(message.raw)
    assert (whole.sender.name, whole.is_incomplete) == ("alice", False)
    await feishu.user_says(chat, "alice", "again")
    await feishu.wait_settled()
    assert recorder.messages[-1].sender.name == "alice"
    assert not recorder.messages[-1].is_incomplete
    assert len(feishu.calls("user.get")) == 1


async def test_without_the_permission_people_are_known_by_id_and_not_asked_for_again(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    feishu.take_scope("contact:user.base:readonly")
    for name in ("alice", "bob"):
        await feishu.user_says("team", name, "hi", mention=True)
    await feishu.wait_settled()
    told = [await connected.enrich(message.raw) for message in recorder.messages]
    assert [message.sender.name for message in told] == ["ou_alice", "ou_bob"]
    assert len(feishu.calls("user.get")) == 1


async def test_a_card_is_read_as_its_author_wrote_it(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    card = {"schema": "2.0", "body": {"elements": [{"tag": "markdown", "content": "CPU 91%"}]}}
    await feishu.user_sends(feishu.create_dm("alice"), "alice", "interactive", card)
    await feishu.wait_settled()
    (message,) = recorder.messages
    assert message.text == "[card]"
    assert (await connected.enrich(message.raw)).text == "CPU 91%"


async def test_a_forward_is_told_in_order_with_names_and_forwards_in_it(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    first = await feishu.user_says("team", "alice", "first")
    second = await feishu.user_says("team", "bob", "second")
    inner = await feishu.forward("team", "bob", [first])
    await feishu.wait_settled()
    await feishu.forward(feishu.create_dm("alice"), "alice", [first, second, inner])
    await feishu.wait_settled()
    message = recorder.messages[-1]
    assert message.text == "[forwarded messages]"
    told = await connected.enrich(message.raw)
    lines = [
        "[forwarded messages:",
        "  alice: first",
        "  bob: second",
        "  bob: [forwarded messages:",
        "    alice: first",
        "  ]",
        "]",
    ]
    assert told.text == "\n".join(lines)


async def test_what_stood_in_a_topic_before_can_be_read(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    about = await feishu.user_says("team", "bob", "the deploy failed")
    for number in range(5):
        await feishu.user_says("team", "alice", f"idea {number}", thread=about)
    await feishu.wait_settled()
    first, *_, last = recorder.messages
    assert [each.text for each in await connected.earlier(last.raw, 3)] == [
        "the deploy failed",
        "idea 2",
        "idea 3",
    ]
    assert [each.sender.name for each in await connected.earlier(last.raw, 2)] == ["bob", "alice"]
    assert await connected.earlier(first.raw, 3) == ()
    feishu.fail_next("message.list", "error:230002", times=FOREVER)
    assert [each.text for each in await connected.earlier(last.raw, 3)] == ["the deploy failed"]


async def test_a_file_is_loaded_up_to_a_size(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    key = await feishu.add_file("报告.pdf", b"%PDF" * 1000)
    content = {"file_key": key, "file_name": "报告.pdf"}
    await feishu.user_sends(feishu.create_dm("alice"), "alice", "file", content)
    await feishu.wait_settled()
    (message,) = recorder.messages
    (attachment,) = message.attachments
    assert (attachment.kind, attachment.name) == ("file", "报告.pdf")
    assert await connected.download(attachment, 4_000) == b"%PDF" * 1000
    await feishu.expire_token()
    assert len(await connected.download(attachment, 1_000_000)) == 4_000
    with pytest.raises(NotLoaded, match="larger than 3,999 bytes"):
        await connected.download(attachment, 3_999)
    with pytest.raises(NotLoaded, match="code 234003"):
        await connected.download(replace(attachment, source=f"{message.identity}/file/x"), 10)
    for how in ("reset_before", "http:502"):
        feishu.fail_next("resource.get", how, times=2)  # aiohttp repeats a GET by itself
        with pytest.raises(NotLoaded, match="broke off"):
            await connected.download(attachment, 10)
        feishu.clear_faults()


async def test_a_recalled_message_is_reported_and_unstored_reports_come_again(
    feishu: FeishuSimulator, recorder: Recorder
) -> None:
    reports: list[Amendment] = []

    async def amend(amendment: Amendment) -> bool:
        reports.append(amendment)
        if len(reports) == 1:
            raise StoreUnavailable
        return True

    async with opened(feishu) as adapter:
        adapter.amend_with(amend)
        async with listening(adapter, recorder):
            said = await feishu.user_says("team", "alice", "no", mention=True)
            await feishu.recall(said)
            await feishu.wait_settled()
    assert {(report.identity, report.message) for report in reports} == {(said, None)}
    assert len(reports) == 2


async def test_a_recorded_payload_is_read_without_a_network(
    feishu: FeishuSimulator, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    await feishu.user_says("team", "alice", "hi", mention=True)
    await feishu.wait_settled()
    plain = json.dumps(feishu.deliveries()[0].payload).encode()
    sealed = json.dumps({"encrypt": encrypt(plain, feishu.encrypt_key)}).encode()
    for body in (plain, sealed):
        message = adapter.read_payload({}, body)
        assert isinstance(message, InboundMessage)
        assert (message.text, message.mentioned) == ("hi", True)
    other = json.dumps({"encrypt": encrypt(plain, "another key")}).encode()
    assert adapter.read_payload({}, other) == Ignored(reason="wrong_encrypt_key")
    assert adapter.read_payload({}, b"{") == Ignored(reason="unreadable_body")
    signed = {"X-Lark-Signature": "0" * 64}
    assert adapter.read_payload(signed, sealed) == Ignored(reason="bad_signature")


async def test_what_cannot_be_had_stays_a_mark(
    feishu: FeishuSimulator, recorder: Recorder, connected: FeishuAdapter
) -> None:
    quoted = await feishu.user_says("team", "bob", "gone soon")
    await feishu.forward("team", "alice", [quoted])
    await feishu.user_says("team", "alice", "why?", mention=True, quote=quoted)
    await feishu.wait_settled()
    feishu.fail_next("message.get", "error:230002", times=FOREVER)
    told = [(await connected.enrich(message.raw)).text for message in recorder.messages]
    assert told == ["gone soon", "[forwarded messages]", "why?"]


# -- the webhook -----------------------------------------------------------------------------------


@pytest.fixture
async def hooked(feishu: FeishuSimulator, recorder: Recorder) -> AsyncIterator[FeishuAdapter]:
    async with receiving(feishu, recorder, "webhook") as ready:
        yield ready


async def test_the_handshake_is_answered_though_it_is_not_signed(
    feishu: FeishuSimulator, hooked: FeishuAdapter
) -> None:
    assert feishu.webhook is not None
    assert await feishu.webhook.verify_url()


async def test_what_feishu_did_not_send_is_refused(
    feishu: FeishuSimulator, recorder: Recorder, hooked: FeishuAdapter
) -> None:
    hook = feishu.webhook
    assert hook is not None
    await feishu.user_says(feishu.create_dm("alice"), "alice", "genuine")
    await feishu.wait_settled()
    plain = json.dumps(feishu.deliveries()[0].payload).encode()
    sealed = hook.seal(plain)
    assert (await hook.post(plain)).status == 401  # signed, but not encrypted
    assert (await hook.post(sealed, signed=False)).status == 401
    assert (await hook.post(sealed, signature="0" * 64)).status == 401
    assert (await hook.post(b'{"encrypt": "AAAA"}')).status == 400
    assert (await hook.post(b"{")).status == 400
    assert (await hook.post(b"")).status == 400
    hook.encrypt_key = "another key"
    assert (await hook.post(hook.seal(plain))).status == 400
    hook.encrypt_key = feishu.encrypt_key
    assert (await hook.post(hook.seal(plain.replace(b"token", b"nekot")))).status == 401
    hook.clock_skew_s = -600
    assert (await hook.post(sealed)).status == 401
    hook.clock_skew_s = 0
    assert (await hook.post(sealed)).status == 200
    assert recorder.texts == ["genuine", "genuine"]


async def test_an_old_callback_is_signed_with_the_token_and_counts_while_it_is_fresh(
    feishu: FeishuSimulator, recorder: Recorder, hooked: FeishuAdapter
) -> None:
    hook = feishu.webhook
    assert hook is not None
    body = {
        "open_id": "ou_alice",
        "open_message_id": "om_q",
        "open_chat_id": "oc_team",
        "token": "c-1",
        "action": {"tag": "button", "value": {"clawbot": "/approve ab12", "chat": "oc_team"}},
    }
    assert (await hook.post_old_callback(body)).json() == {}
    assert recorder.texts == ["/approve ab12"]
    hook.clock_skew_s = -600
    assert (await hook.post_old_callback(body)).status == 200  # answered, and nothing done
    hook.clock_skew_s = 0
    assert (await hook.post_old_callback(body, token="guessed")).status == 401
    assert recorder.texts == ["/approve ab12"]


async def test_an_old_callback_that_cannot_be_verified_does_nothing(
    feishu: FeishuSimulator, recorder: Recorder
) -> None:
    async with receiving(feishu, recorder, "webhook", verification_token=None):
        assert feishu.webhook is not None
        body = {"open_message_id": "om_q", "action": {"value": {"clawbot": "/stop all"}}}
        assert (await feishu.webhook.post_old_callback(body)).status == 200
    assert recorder.texts == []


async def test_without_a_key_the_token_decides() -> None:
    recorder = Recorder()
    async with FeishuSimulator(encrypted=False) as feishu:
        alice = feishu.create_user("alice")
        async with receiving(feishu, recorder, "webhook"):
            assert feishu.webhook is not None
            assert await feishu.webhook.verify_url()
            await feishu.user_says(feishu.create_dm(alice), alice, "plain")
            await feishu.wait_settled()
            forged = json.dumps({**feishu.deliveries()[0].payload, "header": {"token": "guess"}})
            assert (await feishu.webhook.post(forged.encode())).status == 401
    assert recorder.texts == ["plain"]


async def test_a_large_request_is_refused(feishu: FeishuSimulator, recorder: Recorder) -> None:
    async with receiving(feishu, recorder, "webhook", max_body_bytes=4096):
        assert feishu.webhook is not None
        assert (await feishu.webhook.post(b" " * 5000)).status == 413


async def test_a_port_that_is_taken_is_told(feishu: FeishuSimulator, recorder: Recorder) -> None:
    port = int(feishu.base_url.rpartition(":")[2])
    async with opened(feishu, mode="webhook", listen_port=port) as adapter:
        with pytest.raises(StartupError, match="listen_port"):
            await asyncio.wait_for(adapter.receive(recorder), 10)


async def test_two_apps_in_one_process_know_their_own(recorder: Recorder) -> None:
    other = Recorder()
    async with (
        FeishuSimulator(seed=1) as one,
        FeishuSimulator(seed=2) as two,
        opened(one) as first,
        opened(two) as second,
        listening(first, recorder),
        listening(second, other),
    ):
        for simulator in (one, two):
            user = simulator.create_user("alice")
            await simulator.user_says(simulator.create_dm(user), user, simulator.app_id)
            await simulator.wait_settled()
    assert (recorder.texts, other.texts) == ([one.app_id], [two.app_id])
