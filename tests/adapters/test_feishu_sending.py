"""What the Feishu adapter sends and changes, over real HTTP, with everything that goes wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from adapters.feishu.adapter import FeishuAdapter
from clawbot.clock import SystemClock
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError
from clawbot.messages import InboundMessage, MessageRef, OutboundPart, ReplyRoute
from tests.adapters.feishu_rig import Recorder, answer_to, opened, part, receiving, until
from tests.simulators.feishu import FOREVER, FeishuSimulator

TABLE = "| a | b |\n| - | - |\n| 1 | 2 |"


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


async def heard(feishu: FeishuSimulator, chat: str, **said: Any) -> InboundMessage:
    """What the adapter makes of a message in a chat."""
    recorder = Recorder()
    async with receiving(feishu, recorder, "long_connection"):
        await feishu.user_says(chat, "alice", "question", mention=True, **said)
        await feishu.wait_settled()
    return recorder.messages[-1]


def growing(text: str, **fields: Any) -> OutboundPart:
    return part("oc_team", text, is_final=False, **fields)


# -- forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Hello & <b>", "text"),
        ("two\nlines", "text"),
        ("**bold**", "post"),
        ("see [docs](https://example.com/a_b)", "post"),
        ("```\ncode\n```", "post"),
        (TABLE, "interactive"),
    ],
)
async def test_a_complete_answer_takes_the_simplest_form_that_shows_it(
    feishu: FeishuSimulator, adapter: FeishuAdapter, text: str, kind: str
) -> None:
    await adapter.send(part("oc_team", text))
    (sent,) = feishu.sent("team")
    assert (sent.kind, sent.text) == (kind, text)


@pytest.mark.parametrize("form", ["card", "post", "text"])
async def test_the_form_can_be_chosen(feishu: FeishuSimulator, form: str) -> None:
    async with opened(feishu, answer_format=form) as adapter:
        await adapter.send(part("oc_team", "**bold**"))
    (sent,) = feishu.sent("team")
    assert sent.kind == {"card": "interactive"}.get(form, form)


@pytest.mark.parametrize(
    "text", ["<at id=all></at> hi", '<at user_id="all">x</at>', "< AT id=all>"]
)
async def test_nothing_that_the_model_writes_notifies_anybody(
    feishu: FeishuSimulator, text: str
) -> None:
    for number, form in enumerate(("text", "post", "card")):
        async with opened(feishu, answer_format=form) as adapter:
            await adapter.send(part("oc_team", text, key=f"k{number}"))
            ref = await adapter.send(growing("x", key=f"g{number}"))
            await adapter.edit(ref, part("oc_team", text))
    assert not [sent for sent in feishu.sent() if "<at" in sent.content.lower()]
    assert not [sent for sent in feishu.sent() if "<at" in sent.text.lower().replace("< ", "<")]


async def test_many_tables_are_shown_some_as_tables_and_the_rest_as_text(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "\n\n".join([TABLE] * 8)))
    (sent,) = feishu.sent("team")
    assert sent.kind == "interactive"
    assert sent.text.count("| - | - |") == 4
    assert sent.text.count("```\na | b\n--+--\n1 | 2\n```") == 4


async def test_a_picture_of_the_web_is_a_link(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    text = f"![plot](https://example.com/p.png)\n\n{TABLE}\n\n```\n![not](https://x.y)\n```"
    await adapter.send(part("oc_team", text))
    (sent,) = feishu.sent("team")
    assert sent.text == text.replace("![plot]", "[plot]")


async def test_what_one_form_does_not_show_is_sent_in_a_simpler_one(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    feishu.fail_next("message.create", "error:230099")
    await adapter.send(part("oc_team", TABLE, key="k1"))
    feishu.fail_next("message.create", "error:230099")
    feishu.fail_next("message.create", "error:230001")
    await adapter.send(part("oc_team", TABLE, key="k2"))
    assert [sent.kind for sent in feishu.sent("team")] == ["post", "text"]
    assert "a | b" in feishu.sent("team")[0].text


async def test_the_largest_part_is_taken_in_every_form(feishu: FeishuSimulator) -> None:
    for number, char in enumerate(("x", "长", '"', "\n\\", "👍")):
        for form in ("card", "post", "text"):
            async with opened(feishu, answer_format=form) as adapter:
                text = char
                while adapter.measure(text + text) <= adapter.limits.max_size:
                    text += text
                await adapter.send(
                    part("oc_team", text, key=f"{number}{form}", progress="working " * 50)
                )
    assert len(feishu.sent("team")) == 15


# -- places ----------------------------------------------------------------------------------------


async def test_an_answer_in_a_group_quotes_the_question(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    question = await heard(feishu, "team")
    ref = await adapter.send(answer_to(question, "answer"))
    (sent,) = feishu.sent("team")
    assert (sent.parent_id, sent.thread_id, ref.thread) == (question.identity, "", None)


async def test_an_answer_in_a_direct_chat_or_without_quotes_stands_for_itself(
    feishu: FeishuSimulator,
) -> None:
    async with opened(feishu) as adapter:
        await adapter.send(answer_to(await heard(feishu, feishu.create_dm("alice")), "answer"))
    (sent,) = feishu.sent()
    assert sent.parent_id == ""


async def test_an_answer_in_a_topic_stands_in_it(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    about = await feishu.user_says("team", "alice", "topic")
    question = await heard(feishu, "team", thread=about)
    ref = await adapter.send(answer_to(question, "answer"))
    (sent,) = feishu.sent("team")
    assert (sent.thread_id, sent.root_id, ref.thread) == (question.thread, about, None)


async def test_the_answer_to_the_first_message_of_a_topic_teaches_its_id(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    chat = feishu.create_group("topics", ["alice"], topics=True)
    question = await heard(feishu, chat)
    ref = await adapter.send(answer_to(question, "answer"))
    (sent,) = feishu.sent(chat)
    assert ref.thread == sent.thread_id
    assert sent.thread_id.startswith("omt_")
    assert (sent.root_id, question.opens_thread) == (question.identity, question.identity)


@pytest.mark.parametrize("code", [230011, 231003])
async def test_an_answer_to_a_message_that_is_gone_is_sent_without_it(
    feishu: FeishuSimulator, adapter: FeishuAdapter, code: int
) -> None:
    question = await heard(feishu, "team")
    feishu.fail_next("message.reply", f"error:{code}")
    await adapter.send(answer_to(question, "answer"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.parent_id) == ("answer", "")


async def test_a_topic_whose_first_message_is_gone_is_answered_at_the_question(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    about = await feishu.user_says("team", "alice", "topic")
    question = await heard(feishu, "team", thread=about)
    await feishu.recall(about)
    await adapter.send(answer_to(question, "answer"))
    (sent,) = feishu.sent("team")
    assert sent.parent_id == question.identity


# -- once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["reset_after", "bad_json", "html", "hang_after"])
@pytest.mark.parametrize("is_final", [True, False])
async def test_a_part_whose_outcome_is_unknown_can_be_sent_again_and_stands_once(
    feishu: FeishuSimulator, how: str, is_final: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.feishu.calls.CALL_TIMEOUT_S", 0.5)
    async with opened(feishu) as adapter:
        feishu.fail_next("message.create", how)
        sending = part("oc_team", "**once**", is_final=is_final)
        with pytest.raises(OutcomeUnknown):
            await adapter.send(sending)
    async with opened(feishu) as another:
        await another.send(replace(sending, text="**once** more", is_final=True, is_repeated=True))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.uuid) == ("**once** more", sending.key)
    assert not sent.streaming


async def test_a_repeated_part_that_shows_the_right_text_is_not_edited(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "**once**"))
    await adapter.send(part("oc_team", "**once**", is_repeated=True))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.edits) == ("**once**", 0)


async def test_a_repeated_part_whose_text_cannot_be_shown_yet_is_asked_for_again(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "begin", is_final=False))
    feishu.fail_next("card.content", "ratelimited:0.1")
    with pytest.raises(OutcomeUnknown):
        await adapter.send(part("oc_team", "begin and end", is_repeated=True))
    await asyncio.sleep(0.15)
    await adapter.send(part("oc_team", "begin and end", is_repeated=True))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("begin and end", False)


@pytest.mark.parametrize("how", ["http:404", "reset_before", "error:2200", "http:503", "slow:0.01"])
async def test_every_failure_says_what_may_be_done(
    feishu: FeishuSimulator, adapter: FeishuAdapter, how: str
) -> None:
    expected: dict[str, type[SendError] | None] = {
        "http:404": NotSent,
        "reset_before": OutcomeUnknown,
        "error:2200": OutcomeUnknown,
        "http:503": OutcomeUnknown,
        "slow:0.01": None,
    }
    feishu.fail_next("message.create", how)
    if (failure := expected[how]) is None:
        await adapter.send(part("oc_team", "x"))
    else:
        with pytest.raises(failure):
            await adapter.send(part("oc_team", "x"))


async def test_a_refusal_for_good_carries_feishus_code(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await feishu.remove_bot("team")
    with pytest.raises(Rejected) as caught:
        await adapter.send(part("oc_team", "x"))
    assert caught.value.code == "230002"


# -- tokens ----------------------------------------------------------------------------------------


async def test_a_token_is_fetched_once_for_all_who_wait(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    feishu.fail_next("tenant_access_token", "slow:0.1")
    chats = [feishu.create_group(f"g{number}") for number in range(10)]
    await asyncio.gather(*(adapter.send(part(chat, "x", key=chat)) for chat in chats))
    assert len(feishu.calls("tenant_access_token")) == 1
    assert len(feishu.sent()) == 10


@pytest.mark.parametrize("how", ["http:502", "reset_before", "bad_json"])
async def test_without_a_token_a_message_was_surely_not_sent(
    feishu: FeishuSimulator, adapter: FeishuAdapter, how: str
) -> None:
    feishu.fail_next("tenant_access_token", how)
    with pytest.raises(NotSent):
        await adapter.send(part("oc_team", "x"))
    assert feishu.calls("message.create") == []


async def test_a_token_that_feishu_refuses_is_replaced_and_the_message_still_goes_out(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "one", key="k1"))
    await feishu.expire_token()
    await adapter.send(part("oc_team", "two", key="k2"))
    assert [sent.text for sent in feishu.sent("team")] == ["one", "two"]
    assert len(feishu.calls("tenant_access_token")) == 2


class MovedClock(SystemClock):
    """The host's clock, moved on by hand."""

    moved_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.moved_s


async def test_a_token_is_renewed_before_it_ends_and_not_for_every_call() -> None:
    clock = MovedClock()
    async with (
        FeishuSimulator(token_expire_s=300) as feishu,
        opened(feishu, clock=clock) as adapter,
    ):
        chat = feishu.create_group("team")
        for number in range(5):
            await adapter.send(part(chat, "x", key=str(number)))
        assert len(feishu.calls("tenant_access_token")) == 1
        clock.moved_s = 250
        await adapter.send(part(chat, "x", key="a"))  # the old one is still good
        await until(lambda: len(feishu.calls("tenant_access_token")) == 2)
        clock.moved_s = 10_000
        await adapter.send(part(chat, "x", key="b"))
    assert len(feishu.calls("tenant_access_token")) == 3
    assert len(feishu.sent()) == 7


async def test_a_secret_that_was_changed_ends_the_channel_and_keeps_the_reply(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "one"))
    await feishu.change_secret("another")
    with pytest.raises(NotSent):
        await adapter.send(part("oc_team", "two"))
    assert adapter.health().state == "broken"
    assert "app_secret" in adapter.health().detail


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ratelimited:0.4:400", "ratelimited:0.4:429"])
async def test_a_rate_limit_is_obeyed_without_asking_again(
    feishu: FeishuSimulator, adapter: FeishuAdapter, how: str
) -> None:
    feishu.fail_next("message.create", how)
    with pytest.raises(NotSent) as caught:
        await adapter.send(part("oc_team", "x"))
    assert caught.value.retry_after_s == pytest.approx(0.4)
    with pytest.raises(NotSent, match="rate limited"):
        await adapter.send(part("oc_team", "x"))
    assert len(feishu.calls("message.create")) == 1
    await asyncio.sleep(0.45)
    await adapter.send(part("oc_team", "x"))
    assert len(feishu.sent("team")) == 1


async def test_one_chat_gets_five_messages_a_second_and_holds_up_no_other(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    feishu.limit_rate("message.create", calls=5, per_chat=True)
    other = feishu.create_group("other")
    sends = [adapter.send(part("oc_team", "x", key=f"k{number}")) for number in range(8)]
    await asyncio.gather(*sends, adapter.send(part(other, "y")))
    assert len(feishu.sent("team")) == 8
    assert feishu.sent()[1].chat == other


async def test_a_chat_that_was_refused_waits_and_others_do_not(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    feishu.fail_next("message.create", "error:230020")
    with pytest.raises(NotSent):
        await adapter.send(part("oc_team", "x"))
    other = feishu.create_group("other")
    await adapter.send(part(other, "y", key="k2"))
    await adapter.send(part("oc_team", "x"))
    assert [sent.chat for sent in feishu.sent()] == [other, "oc_team"]


async def test_a_quota_that_is_used_up_stops_what_is_not_needed(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    said = await feishu.user_says("team", "alice", "x")
    feishu.fail_next("reaction.create", "error:99991403", times=FOREVER)
    route = ReplyRoute(chat_id="oc_team", token=said)
    for _ in range(20):
        await adapter.typing(route, active=True)
    assert len(feishu.calls("reaction.create")) == 1


# -- growing ---------------------------------------------------------------------------------------


async def test_a_growing_answer_is_typed_out_on_a_card_and_closed(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    ref = await adapter.send(growing("Hel", progress="reading a.txt"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("Hel\n\n⏳ reading a.txt", True)
    for text in ("Hello", "Hello **wor"):
        await adapter.edit(ref, growing(text))
    await adapter.edit(ref, part("oc_team", "Hello **world**"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("Hello **world**", False)
    (card,) = feishu.tenant.cards.values()
    assert card.sequences == sorted(set(card.sequences))
    assert len(card.sequences) == 4
    assert card.content["config"]["summary"] == {"content": "Hello **world**"}


async def test_another_process_goes_on_where_one_ended(feishu: FeishuSimulator) -> None:
    async with opened(feishu) as first:
        ref = await first.send(growing("one"))
        await first.edit(ref, growing("one two"))
    async with opened(feishu) as second:
        await second.edit(MessageRef(id=ref.id), part("oc_team", "one two three"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("one two three", False)


async def test_a_clock_that_was_ahead_does_not_stop_the_next_process(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    ref = await adapter.send(growing("one"))
    (card,) = feishu.tenant.cards.values()
    card.sequences.append(45_000)
    await adapter.edit(ref, part("oc_team", "one two"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("one two", False)


async def test_an_update_that_is_limited_is_left_out_and_the_last_one_is_not(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    ref = await adapter.send(growing("one"))
    feishu.fail_next("card.content", "ratelimited:0.1:400")
    await adapter.edit(ref, growing("one two"))
    with pytest.raises(NotSent):
        await adapter.edit(ref, part("oc_team", "one two three"))
    await asyncio.sleep(0.15)
    await adapter.edit(ref, part("oc_team", "one two three"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("one two three", False)


async def test_many_growing_answers_stay_below_the_apps_limit(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    feishu.limit_rate("card.content", calls=50)
    refs = [
        await adapter.send(
            part(feishu.create_group(f"g{number}"), "x", key=f"k{number}", is_final=False)
        )
        for number in range(10)
    ]
    for text in map(str, range(20)):
        await asyncio.gather(*(adapter.edit(ref, growing(text)) for ref in refs))
    assert not [call for call in feishu.calls("card.content") if call.code]
    assert len(feishu.calls("card.content")) < 200


async def test_a_stream_that_feishu_ended_shows_the_whole_text_all_the_same(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    ref = await adapter.send(growing("one"))
    await feishu.close_streams()
    await adapter.edit(ref, growing("one two"))
    await adapter.edit(ref, part("oc_team", "one two three"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("one two three", False)


def without_scope(feishu: FeishuSimulator) -> None:
    feishu.take_scope("cardkit:card:write")


def without_cards(feishu: FeishuSimulator) -> None:
    feishu.fail_next("card.create", "error:300301", times=FOREVER)


@pytest.mark.parametrize("refuse", [without_scope, without_cards])
async def test_without_the_card_kit_a_card_is_redrawn(
    feishu: FeishuSimulator, adapter: FeishuAdapter, refuse: Callable[[FeishuSimulator], None]
) -> None:
    refuse(feishu)
    ref = await adapter.send(growing("one"))
    await adapter.edit(ref, growing("one two"))
    await adapter.edit(ref, part("oc_team", "one two three"))
    (sent,) = feishu.sent("team")
    assert (sent.kind, sent.text) == ("interactive", "one two three")
    assert len(feishu.calls("message.patch")) == 2


async def test_a_missing_permission_for_cards_is_not_tried_again_and_again(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    without_scope(feishu)
    for number in range(3):
        await adapter.send(growing("x", key=f"k{number}"))
    assert len(feishu.calls("card.create")) == 1


async def test_an_answer_that_grows_by_edits_keeps_some_for_the_end(
    feishu: FeishuSimulator,
) -> None:
    clock = MovedClock()
    async with opened(feishu, clock=clock, streaming="edits") as adapter:
        ref = await adapter.send(growing("0"))
        for number in range(60):
            clock.moved_s += 100
            await adapter.edit(ref, growing(f"0 {number}"))
        await adapter.edit(ref, part("oc_team", "whole"))
    (sent,) = feishu.sent("team")
    assert (sent.kind, sent.text) == ("post", "whole")
    assert sent.edits == 16


@pytest.mark.parametrize("way", ["edits", "card", "card_kit"])
async def test_a_message_that_cannot_be_changed_any_more_is_sent_anew_and_taken_back(
    feishu: FeishuSimulator, way: str
) -> None:
    async with opened(feishu, streaming=way) as adapter:
        ref = await adapter.send(growing("begin"))
        for api in ("message.update", "message.patch", "card.content", "card.update"):
            feishu.fail_next(api, "error:230072", times=FOREVER)
        for _ in range(2):  # the core may ask twice
            await adapter.edit(ref, part("oc_team", "begin and end"))
    (sent,) = feishu.sent("team")
    assert sent.text == "begin and end"
    assert [each.deleted for each in feishu.posted("team")] == [True, False]


async def test_a_half_table_on_the_way_does_not_end_the_growth(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    ref = await adapter.send(growing("one"))
    feishu.fail_next("card.content", "error:230099")
    await adapter.edit(ref, growing("one | two"))
    await adapter.edit(ref, part("oc_team", "done"))
    (sent,) = feishu.sent("team")
    assert (sent.text, sent.streaming) == ("done", False)


# -- the sign --------------------------------------------------------------------------------------


async def test_the_sign_is_put_on_and_taken_off(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    said = await feishu.user_says("team", "alice", "x")
    route = ReplyRoute(chat_id="oc_team", token=said)
    await adapter.typing(route, active=True)
    await adapter.typing(route, active=True)
    assert feishu.reactions(said) == ["Typing"]
    await adapter.typing(route, active=False)
    assert feishu.reactions(said) == []


async def test_a_sign_of_a_process_that_died_is_taken_off_too(feishu: FeishuSimulator) -> None:
    said = await feishu.user_says("team", "alice", "x")
    route = ReplyRoute(chat_id="oc_team", token=said)
    async with opened(feishu) as first:
        await first.typing(route, active=True)
    async with opened(feishu) as second:
        await second.typing(route, active=False)
    assert feishu.reactions(said) == []


async def test_a_sign_that_fails_or_is_not_wanted_disturbs_nobody(feishu: FeishuSimulator) -> None:
    said = await feishu.user_says("team", "alice", "x")
    route = ReplyRoute(chat_id="oc_team", token=said)
    feishu.take_scope("im:message.reactions:write_only")
    async with opened(feishu) as adapter:
        for _ in range(3):
            await adapter.typing(route, active=True)
    assert len(feishu.calls("reaction.create")) == 1
    async with opened(feishu, typing_reaction="") as silent:
        await silent.typing(route, active=True)
    assert len(feishu.calls("reaction.create")) == 1


async def test_the_body_of_a_message_is_json_that_says_nothing_but_the_answer(
    feishu: FeishuSimulator, adapter: FeishuAdapter
) -> None:
    await adapter.send(part("oc_team", "Grüße 你好"))
    (call,) = feishu.calls("message.create")
    assert json.loads(call.body["content"]) == {"text": "Grüße 你好"}
    assert call.query == {"receive_id_type": "chat_id"}
