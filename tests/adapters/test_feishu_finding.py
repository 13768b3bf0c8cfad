"""Finding what was sent, once Feishu has forgotten under which uuid."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from adapters.feishu.adapter import FeishuAdapter
from adapters.feishu.finding import likeness_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected
from clawbot.messages import OutboundFile, OutboundPart
from tests.adapters.feishu_rig import opened, part
from tests.simulators.feishu import FeishuSimulator

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuSimulator]:
    async with FeishuSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", open_id="ou_alice")
        simulator.create_group("team", ["alice"], chat_id="oc_team")
        yield simulator


@pytest.fixture
async def adapter(feishu: FeishuSimulator) -> AsyncIterator[FeishuAdapter]:
    async with opened(feishu) as ready:
        yield ready


def doubtful(text: str, **fields: Any) -> OutboundPart:
    return part("oc_team", text, tried_ms=time.time_ns() // 1_000_000, **fields)


async def lost(feishu: FeishuSimulator, adapter: FeishuAdapter, sending: OutboundPart) -> None:
    """Feishu takes a part, and its answer does not arrive."""
    feishu.fail_next("message.reply" if sending.route.reply_to else "message.create", "reset_after")
    with pytest.raises(OutcomeUnknown):
        await adapter.send(sending)


TEXTS = {
    "text": "the answer is 42",
    "post": "it is **42**, see [the guide](https://example.com/a_b) and `code`",
    "card": "| a | b |\n|---|---|\n| 1 | 2 |\n\nand so on",
}


@pytest.mark.parametrize("form", list(TEXTS))
async def test_what_was_taken_is_found_in_every_form_and_can_be_changed(
    feishu: FeishuSimulator, adapter: FeishuAdapter, form: str
) -> None:
    await adapter.send(part("oc_team", "something before"))
    sending = doubtful(TEXTS[form], key="clawbot-2-0-1")
    await lost(feishu, adapter, sending)
    await adapter.send(part("oc_team", "something after", key="clawbot-3-0-1"))
    found = await adapter.lookup(sending)
    assert found is not None
    await adapter.edit(found, replace(sending, text=TEXTS[form] + " indeed"))
    assert TEXTS[form] + " indeed" in [sent.text for sent in feishu.sent("team")]
    assert len(feishu.sent("team")) == 3


async def test_a_growing_answer_is_found_by_its_beginning(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    sending = doubtful("once upon a time", is_final=False, progress="reading")
    await lost(feishu, adapter, sending)
    whole = replace(sending, text="once upon a time there was a lake", is_final=True, progress="")
    found = await adapter.lookup(whole)
    assert found is not None
    await adapter.edit(found, whole)
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == (whole.text, False)


@pytest.mark.parametrize("is_learned", [True, False])
async def test_an_answer_in_a_topic_is_looked_for_there(
    feishu: FeishuSimulator, adapter: FeishuAdapter, is_learned: bool
) -> None:
    board = feishu.create_group("board", ["alice"], topics=True)
    said = await feishu.user_says(board, "alice", "hi")
    sending = doubtful("in the topic")
    sending = replace(
        sending, route=replace(sending.route, chat_id=board, reply_to=said, thread=said)
    )
    assert await adapter.lookup(sending) is None
    await lost(feishu, adapter, sending)
    (sent,) = feishu.sent(board)
    if is_learned:
        sending = replace(sending, route=replace(sending.route, thread=sent.thread_id))
    found = await adapter.lookup(sending)
    assert found is not None
    assert found.thread == (None if is_learned else sent.thread_id)


async def test_a_file_is_found_by_what_it_is(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    for name, mime, data in (("a.png", "image/png", PNG), ("b.txt", "text/plain", b"text")):
        file = OutboundFile(name=name, mime=mime, size_bytes=len(data), blob="x")
        sending = doubtful("not sent", key=f"key-{name}", file=file)
        assert await adapter.lookup(sending) is None
        await adapter.upload(sending, data)
        assert await adapter.lookup(sending) is not None
        assert await adapter.lookup(doubtful("not sent")) is None
    nameless = OutboundFile(name="c", mime="", size_bytes=1, blob="x")
    with pytest.raises(Rejected):
        await adapter.lookup(doubtful("not sent", file=nameless))


async def test_what_others_said_or_was_said_before_is_not_it(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "yes"))
    await feishu.user_says("team", "alice", "of course it is")
    sending = doubtful("of course it is")
    assert await adapter.lookup(sending) is None
    later = replace(part("oc_team", "yes"), tried_ms=sending.tried_ms + 600_000)
    assert await adapter.lookup(later) is None


async def test_more_messages_than_one_page_are_looked_through(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    sending = doubtful("the first of many")
    await lost(feishu, adapter, sending)
    for number in range(120):
        await feishu.user_says("team", "alice", str(number))
    assert await adapter.lookup(sending) is not None
    for number in range(500):
        await feishu.user_says("team", "alice", str(number))
    with pytest.raises(Rejected):  # it may be further back
        await adapter.lookup(sending)


async def test_what_cannot_be_told_is_said_so(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "the deployment of the shop has ended well"))
    with pytest.raises(Rejected):
        await adapter.lookup(doubtful("the deployment of the blog has been put off"))
    feishu.fail_next("message.list", "error:230027")
    with pytest.raises(Rejected):
        await adapter.lookup(doubtful("x"))
    for how in ("http:502", "reset_before", "ratelimited:0.01"):
        feishu.fail_next("message.list", how, times=2)  # aiohttp repeats a GET by itself
        with pytest.raises(NotSent):
            await adapter.lookup(doubtful("x"))
        feishu.clear_faults()


def test_likeness_looks_at_words_only() -> None:
    assert likeness_of("**a** [b](https://c.example/d)", "a b") == 1
    assert likeness_of("the whole text", "the whole") == 1
    assert likeness_of("one thing", "quite another") < 0.5
    assert likeness_of("", "") == 1
    assert likeness_of("x", "") == 0
