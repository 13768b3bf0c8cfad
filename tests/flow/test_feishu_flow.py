"""Feishu simulator → adapter → store → worker → model simulator → Feishu simulator."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.store import sessions
from tests.flow.daemon import Daemon
from tests.flow.feishu_ground import TRANSPORTS, connect, feishu_daemon
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.model.script import echo


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def daemon(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator, transport: str
) -> AsyncIterator[Daemon]:
    async with feishu_daemon(tmp_path, feishu, model, transport) as running:
        yield running


async def keys_of(daemon: Daemon) -> set[str]:
    found = await daemon.store.read(lambda tx: sessions.recent(tx, 50))
    return {row["key"] for row in found}


async def test_a_direct_message_is_answered_in_its_chat(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    chat = feishu.create_dm("alice")
    model.expect(Reply(text="Hello **Alice**"), when="hi there")
    said = await feishu.user_says(chat, "alice", "hi there")
    await feishu.wait_text("Hello **Alice**")
    await daemon.until_quiet()
    await feishu.wait_settled()
    (sent,) = feishu.sent(chat)
    assert (sent.text, sent.parent_id, sent.streaming) == ("Hello **Alice**", "", False)
    assert feishu.unacked() == []
    await feishu.wait_for(lambda: not feishu.reactions(said))


async def test_I2_an_event_is_acknowledged_while_the_model_still_thinks(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    chat = feishu.create_dm("alice")
    gate = model.hold(when="think hard")
    model.expect(Reply(text="Thought."), when="think hard")
    await feishu.user_says(chat, "alice", "think hard")
    await gate.reached
    await feishu.wait_settled()
    assert (feishu.unacked(), feishu.sent(chat)) == ([], [])
    assert {delivery.attempts for delivery in feishu.acked()} == {1}
    gate.release()
    await feishu.wait_text("Thought.")
    await daemon.until_quiet()


async def test_a_group_hears_only_its_mentions_and_tells_what_was_said_before(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    model.expect(Reply(text="The deploy."), when="what did bob say")
    await feishu.user_says("team", "bob", "the deploy failed")
    await feishu.wait_settled()
    asked = await feishu.user_says("team", "alice", "what did bob say?", mention=True)
    await feishu.wait_text("The deploy.")
    await daemon.until_quiet()
    (sent,) = feishu.sent("team")
    assert sent.parent_id == asked
    assert "the deploy failed" in model.requests[0].all_text
    assert await keys_of(daemon) == {"feishu:oc_team"}


@pytest.mark.parametrize("shape", ["topics", "topic_format"])
async def test_a_topic_is_one_session_from_its_first_message_on(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, shape: str
) -> None:
    chat = feishu.create_group("board", ["alice"], **{shape: True})  # type: ignore[arg-type]
    model.expect(Reply(text="Noted."), when="the code is 4711")
    model.expect(Reply(text="It is 4711."), when="what was the code")
    starter = await feishu.user_says(chat, "alice", "the code is 4711", mention=True)
    await feishu.wait_text("Noted.")
    await daemon.until_quiet()
    await feishu.user_says(chat, "alice", "what was the code?", thread=starter)
    await feishu.wait_text("It is 4711.")
    await daemon.until_quiet()
    assert "the code is 4711" in model.requests[1].all_text
    assert {sent.root_id for sent in feishu.sent(chat)} == {starter}
    assert len({sent.thread_id for sent in feishu.sent(chat)}) == 1
    assert await keys_of(daemon) == {f"feishu:{chat}/thread:{starter}"}


async def test_two_topics_and_their_chat_share_nothing(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    about = [await feishu.user_says("team", "bob", words) for words in ("apples", "pears")]
    await feishu.wait_settled()
    for number, root in enumerate(about):
        model.expect(Reply(text=f"answer {number}"), when=f"question {number}")
        await feishu.user_says("team", "alice", f"question {number}", mention=True, thread=root)
    model.expect(Reply(text="in the chat"), when="question of all")
    await feishu.user_says("team", "alice", "question of all", mention=True)
    for text in ("answer 0", "answer 1", "in the chat"):
        await feishu.wait_text(text)
    await daemon.until_quiet()
    by_question = {request.last_user_text[-10:]: request.all_text for request in model.requests}
    assert "apples" in by_question["question 0"]
    assert "pears" not in by_question["question 0"]
    assert "pears" in by_question["question 1"]
    assert len(await keys_of(daemon)) == 3


async def test_a_long_answer_grows_on_a_card_that_is_closed_in_the_end(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    words = tuple(f"word{number} " for number in range(30))
    model.expect(Reply(text=words), when="tell me")
    gate = model.hold(when="tell me", after=10)
    said = await feishu.user_says(feishu.create_dm("alice"), "alice", "tell me")
    await feishu.wait_text("word9")
    (sent,) = feishu.sent()
    assert sent.streaming
    await feishu.wait_for(lambda: feishu.reactions(said) == ["Typing"])
    gate.release()
    await feishu.wait_text("word29")
    await daemon.until_quiet()
    (sent,) = feishu.sent()
    assert (sent.text.split(), sent.streaming) == ("".join(words).split(), False)
    await feishu.wait_for(lambda: not feishu.reactions(said))
    (card,) = feishu.tenant.cards.values()
    assert card.sequences == sorted(set(card.sequences))


async def test_an_answer_whose_last_words_were_shown_already_is_closed_too(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    model.expect(Reply(text=("all ", "of ", "it")), when="tell me")
    gate = model.hold(when="tell me", after=3)
    await feishu.user_says(feishu.create_dm("alice"), "alice", "tell me")
    await feishu.wait_text("all of it")
    gate.release()
    await daemon.until_quiet()
    (sent,) = feishu.sent()
    assert (sent.text, sent.streaming) == ("all of it", False)


async def test_a_stop_takes_the_sign_off_and_closes_the_card(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    chat = feishu.create_dm("alice")
    model.expect(Reply(text=("one ", "two ", "three")), when="go")
    model.hold(when="go", after=2)
    said = await feishu.user_says(chat, "alice", "go")
    await feishu.wait_text("one two")
    await feishu.wait_for(lambda: feishu.reactions(said) == ["Typing"])
    await feishu.user_says(chat, "alice", "/stop")
    await feishu.wait_sent(2, chat=chat)
    await daemon.until_quiet()
    await feishu.wait_for(lambda: not feishu.reactions(said))
    await feishu.wait_for(lambda: not any(sent.streaming for sent in feishu.sent()))


async def test_a_channel_that_is_started_anew_goes_on_with_the_same_card(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, transport: str
) -> None:
    model.expect(Reply(text=("one ", "two ", "three")), when="go")
    gate = model.hold(when="go", after=2)
    said = await feishu.user_says(feishu.create_dm("alice"), "alice", "go")
    await feishu.wait_text("one two")
    await daemon.stop("feishu")
    gate.release()
    await daemon.start("feishu")
    await connect(daemon, feishu, transport)
    await feishu.wait_text("one two three")
    await daemon.until_quiet()
    (sent,) = feishu.sent()
    assert (sent.text, sent.streaming) == ("one two three", False)
    await feishu.wait_for(lambda: not feishu.reactions(said))


@pytest.mark.parametrize("as_new", [{}, {"new_event_id": True}, {"new_message_id": True}])
async def test_a_message_that_comes_again_is_answered_once_also_after_a_restart(
    daemon: Daemon,
    feishu: FeishuSimulator,
    model: ModelSimulator,
    transport: str,
    as_new: dict[str, bool],
) -> None:
    model.expect(Reply(text="once"), when="hello")
    chat = feishu.create_dm("alice")
    said = await feishu.user_says(chat, "alice", "hello")
    await feishu.wait_text("once")
    await daemon.until_quiet()
    await feishu.redeliver(said, **as_new)
    await feishu.wait_settled()
    await daemon.stop("feishu")
    await daemon.start("feishu")
    await connect(daemon, feishu, transport)
    await feishu.redeliver(said, **as_new)
    await feishu.wait_settled()
    await daemon.until_quiet()
    assert [sent.text for sent in feishu.sent(chat)] == ["once"]


async def test_a_forward_and_a_quote_reach_the_model_as_text(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    chat = feishu.create_dm("alice")
    said = await feishu.user_says("team", "bob", "the deploy failed")
    model.expect(Reply(text="read"), when="the deploy failed")
    await feishu.forward(chat, "alice", [said])
    await feishu.wait_text("read")
    await daemon.until_quiet()
    assert "bob: the deploy failed" in model.requests[0].last_user_text


FAULTS = [
    ("message.create", "reset_after"),
    ("message.create", "reset_before"),
    ("message.create", "html"),
    ("message.create", "http:503"),
    ("message.create", "bad_json"),
    ("message.create", "ratelimited:0.2:400"),
    ("message.create", "ratelimited:0.2:429"),
    ("message.create", "error:230020"),
    ("message.create", "error:230049"),
    ("message.create", "error:11232"),
    ("message.create", "error:99991663"),
    ("tenant_access_token", "http:502"),
    ("tenant_access_token", "bad_json"),
    ("card.create", "error:99991672"),
    ("card.content", "error:300317"),
    ("card.content", "error:230020"),
    ("card.content", "reset_after"),
    ("card.settings", "html"),
    ("user.get", "hang"),
    ("reaction.create", "http:502"),
]


@pytest.mark.parametrize(("api", "how"), FAULTS)
async def test_each_fault_of_the_api_leaves_every_message_answered_once(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator, api: str, how: str
) -> None:
    async with feishu_daemon(tmp_path, feishu, model) as daemon:
        chat = feishu.create_dm("alice")
        if api == "tenant_access_token":
            await feishu.expire_token()
        feishu.fail_next(api, how)
        model.expect(Reply(text=("a growing ", "answer")), when="first")
        gate = model.hold(when="first", after=1)
        await feishu.user_says(chat, "alice", "first")
        await feishu.wait_text("a growing", timeout_s=30)
        gate.release()
        await feishu.wait_text("a growing answer")
        await daemon.until_quiet()
        model.expect(Reply(text="short"), when="second")
        await feishu.user_says(chat, "alice", "second")
        await feishu.wait_text("short", timeout_s=30)
        await daemon.until_quiet()
    assert [sent.text for sent in feishu.sent(chat)] == ["a growing answer", "short"]
    assert not any(sent.streaming for sent in feishu.sent(chat))


CHAOS_CALLS = {
    "message.create": ["reset_after", "html", "http:503", "ratelimited:0.1:400", "error:230020"],
    "message.reply": ["reset_after", "bad_json", "reset_before", "error:2200"],
    "card.create": ["http:502", "error:300301", "reset_after"],
    "card.content": ["error:300317", "ratelimited:0.1:429", "html", "reset_before"],
    "card.settings": ["http:502", "reset_after"],
    "tenant_access_token": ["http:502", "reset_before"],
    "user.get": ["http:502", "error:41050"],
    "reaction.create": ["error:99991672", "http:502"],
}


@pytest.mark.parametrize("seed", [1, 2])
async def test_mixed_faults_lose_no_answer_and_double_none(
    tmp_path: Path, feishu: FeishuSimulator, transport: str, seed: int
) -> None:
    """A seeded script: people write in three chats while calls, links and tokens fail."""
    chance = random.Random(seed)  # noqa: S311  # the script must repeat
    chats = [feishu.create_dm("alice"), feishu.create_dm("bob"), "oc_team"]
    expected: list[tuple[str, str]] = []
    async with (
        ModelSimulator(responder=echo) as model,
        feishu_daemon(tmp_path, feishu, model, transport) as daemon,
    ):
        for number in range(24):
            chat = chance.choice(chats)
            feishu.clear_faults()  # one that nothing ran into must not pile up
            for api in chance.sample(sorted(CHAOS_CALLS), 2):
                feishu.fail_next(api, chance.choice(CHAOS_CALLS[api]))
            match chance.randrange(6):
                case 0:
                    await feishu.drop_connection()
                case 1:
                    await feishu.expire_token()
                case 2:
                    feishu.fragment(chance.choice([0, 50, 200]), "reversed")
            words = f"message-{number:02d}-of-{seed}"
            name = "bob" if chat == chats[1] else "alice"
            said = await feishu.user_says(chat, name, words, mention=chat == "oc_team")
            expected.append((feishu.chat(chat).id, words))
            if chance.random() < 0.3:
                await feishu.redeliver(said, new_event_id=chance.random() < 0.5)
            if chance.random() < 0.2:
                await feishu.wait_text(words, timeout_s=60)
        await feishu.wait_settled(timeout_s=60)
        feishu.clear_faults()
        for _, words in expected:
            await feishu.wait_text(words, timeout_s=60)
        await daemon.until_quiet()
        assert model.violations == []
    shown = [(sent.chat, line) for sent in feishu.sent() for line in sent.text.split("\n")]
    told = [(chat, line.rpartition(" ")[2]) for chat, line in shown if "message-" in line]
    assert sorted(told) == sorted(expected)
    assert not any(sent.streaming for sent in feishu.sent())
