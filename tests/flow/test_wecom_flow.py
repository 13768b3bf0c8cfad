"""WeCom simulators → callback or long connection → store → worker → model simulator → WeCom."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select

from clawbot.store import outbox
from clawbot.store.schema import turns
from tests.flow.daemon import Daemon, run_daemon
from tests.flow.wechat_ground import bot_keys, until_listening, wecom_keys, write_channel
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.wechat import AibotSimulator, WecomSimulator


async def turn_count(daemon: Daemon) -> int:
    query = select(func.count()).select_from(turns)
    return await daemon.store.read(lambda tx: tx.conn.execute(query).scalar_one())


# -- the app ---------------------------------------------------------------------------------------


@pytest.fixture
async def wecom() -> AsyncIterator[WecomSimulator]:
    async with WecomSimulator() as simulator:
        yield simulator


@pytest.fixture
async def app(
    tmp_path: Path, model: ModelSimulator, wecom: WecomSimulator
) -> AsyncIterator[Daemon]:
    keys = wecom_keys(wecom, welcome="你好", menu={"STATE": "/status"})
    config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", "wecom") as daemon:
        wecom.pusher.url = await until_listening(keys["listen_port"]) + "/wecom"
        yield daemon


async def test_an_app_acknowledges_at_once_and_answers_by_the_api(
    app: Daemon, model: ModelSimulator, wecom: WecomSimulator
) -> None:
    gate = model.hold("hi")
    model.expect(Reply(text="**Hello**\n\n- a"), when="hi")
    delivery = wecom.user_says("alice", "hi")
    await gate.reached
    wecom.redeliver(delivery)
    gate.release()
    assert await wecom.wait_sent(1) == ["**Hello**\n\n• a"]
    await app.until_quiet()
    assert delivery.statuses == [200, 200]
    assert await turn_count(app) == 1


async def test_h5_where_there_are_no_buttons_words_approve_for_a_time(
    app: Daemon, model: ModelSimulator, wecom: WecomSimulator
) -> None:
    call = ToolCall(name="bash", arguments={"command": "rm -rf build; echo removed"})
    model.expect(Reply(tool_calls=(call,)), when="清理一下")
    model.expect(Reply(text="好了"), marker="removed")
    wecom.user_says("alice", "清理一下")
    (question,) = await wecom.wait_sent(1)
    assert "请确认是否执行" in question
    (approval,) = set(re.findall(r"!approve ([0-9a-f]{8})", question))
    wecom.user_says("alice", f"/批准 {approval} 2小时")
    sent = await wecom.wait_sent(3)
    assert any("同样的操作不再询问" in text for text in sent)
    assert "好了" in sent
    model.expect(Reply(tool_calls=(call,)), when="再来一次")
    model.expect(Reply(text="又好了"), when="再来一次")
    wecom.user_says("alice", "再来一次")
    assert (await wecom.wait_sent(4))[-1] == "又好了"
    wecom.user_says("alice", "/批准 列表")
    listed = (await wecom.wait_sent(5))[-1]
    assert f"{approval}" in listed
    assert "有效至" in listed
    wecom.user_says("alice", f"/拒绝 {approval}")
    assert "之后会再次询问" in (await wecom.wait_sent(6))[-1]
    await app.until_quiet()


async def test_a_send_whose_outcome_is_unknown_is_repeated_and_shown_once(
    app: Daemon, model: ModelSimulator, wecom: WecomSimulator
) -> None:
    wecom.fail_next("send", "reset_after")
    model.expect(Reply(text="once"), when="hi")
    wecom.user_says("alice", "hi")
    await wecom.wait_sent(1)
    await app.until_quiet()
    assert (wecom.sent(), len(wecom.dropped)) == (["once"], 1)


async def test_the_same_answer_to_two_questions_is_shown_twice(
    app: Daemon, model: ModelSimulator, wecom: WecomSimulator
) -> None:
    for number in (1, 2):
        model.expect(Reply(text="好的"), when=f"question {number}")
        wecom.user_says("alice", f"question {number}")
        await wecom.wait_sent(number)
        await app.until_quiet()
    assert (wecom.sent(), wecom.dropped) == (["好的", "好的"], [])


async def test_an_app_greets_and_its_menu_speaks(app: Daemon, wecom: WecomSimulator) -> None:
    wecom.user_does("alice", "enter_agent")
    wecom.user_does("alice", "click", "STATE")
    assert len(await wecom.wait_sent(1)) == 1
    await app.until_quiet()
    assert wecom.welcomes == ["你好"]


# -- the AI bot ------------------------------------------------------------------------------------


@pytest.fixture
async def aibot() -> AsyncIterator[AibotSimulator]:
    async with AibotSimulator() as simulator:
        yield simulator


@asynccontextmanager
async def bot_daemon(
    folder: Path, model: ModelSimulator, aibot: AibotSimulator, *, mode: str
) -> AsyncIterator[Daemon]:
    keys = bot_keys(aibot, mode, bot_name="Claude Code", welcome="hello there")
    config = write_channel(folder, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", "wecom_bot") as daemon:
        if mode == "webhook":
            aibot.webhook_url = await until_listening(keys["listen_port"]) + "/wecom-bot"
        else:
            await aibot.wait_linked()
        yield daemon


@pytest.fixture(params=["socket", "webhook"])
async def bot(
    request: pytest.FixtureRequest, tmp_path: Path, model: ModelSimulator, aibot: AibotSimulator
) -> AsyncIterator[Daemon]:
    async with bot_daemon(tmp_path, model, aibot, mode=request.param) as daemon:
        yield daemon


async def test_a_bots_answer_grows_in_one_stream(
    bot: Daemon, model: ModelSimulator, aibot: AibotSimulator
) -> None:
    gate = model.hold("tell", after=1)
    model.expect(Reply(text=("First part. ", "Second part.")), when="tell")
    aibot.user_says("alice", "tell")
    await aibot.wait_text("First part.")
    gate.release()
    assert await aibot.wait_finished(1) == ["First part. Second part."]
    await bot.until_quiet()
    (message,) = aibot.shown
    assert (message.way, message.is_finished) == ("stream", True)


async def test_a_group_message_is_answered_without_its_mention(
    bot: Daemon, model: ModelSimulator, aibot: AibotSimulator
) -> None:
    model.expect(Reply(text="hi group"), when=lambda request: request.last_user_text.endswith("hi"))
    aibot.user_says("alice", "@Claude Code hi", group="wrGroup1")
    assert await aibot.wait_finished(1) == ["hi group"]
    await bot.until_quiet()
    assert aibot.sent("wrGroup1") == ["hi group"]


async def test_a_command_behind_a_mention_is_one(bot: Daemon, aibot: AibotSimulator) -> None:
    aibot.user_says("alice", "@Claude Code /status", group="wrGroup1")
    assert len(await aibot.wait_finished(1)) == 1
    await bot.until_quiet()
    assert await turn_count(bot) == 0


async def test_a_repeated_callback_is_answered_once(
    bot: Daemon, model: ModelSimulator, aibot: AibotSimulator
) -> None:
    gate = model.hold("twice")
    model.expect(Reply(text="once"), when="twice")
    body = aibot.user_says("alice", "twice")
    await gate.reached
    aibot.redeliver(body)
    gate.release()
    await aibot.wait_finished(1)
    await bot.until_quiet()
    assert aibot.sent() == ["once"]
    assert await turn_count(bot) == 1


async def test_a_person_who_opens_the_chat_is_greeted(bot: Daemon, aibot: AibotSimulator) -> None:
    aibot.user_enters("alice")
    assert await aibot.wait_finished(1) == ["hello there"]
    assert bot.running


async def test_what_does_not_fit_into_a_stream_follows_as_a_message(
    bot: Daemon, model: ModelSimulator, aibot: AibotSimulator
) -> None:
    text = "\n\n".join("字" * 400 for _ in range(24))
    model.expect(Reply(text=text), when="long")
    aibot.user_says("alice", "long")
    shown = await aibot.wait_finished(2)
    await bot.until_quiet()
    assert "".join("".join(shown).split()) == "".join(text.split())
    assert [message.way for message in aibot.shown] in (["stream", "message"], ["stream", "late"])


async def test_an_answer_that_is_too_late_for_its_stream_comes_as_a_message(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with (
        AibotSimulator(stream_s=0.1) as aibot,
        bot_daemon(tmp_path, model, aibot, mode="webhook") as daemon,
    ):
        gate = model.hold("slow")
        model.expect(Reply(text="at last"), when="slow")
        aibot.user_says("alice", "slow")
        await gate.reached
        await aibot.wait_idle()
        gate.release()
        await aibot.wait_text("at last", timeout_s=20.0)
        await daemon.until_quiet()
        assert [message.way for message in aibot.shown if message.text] == ["late"]


async def test_an_answer_whose_late_address_was_used_waits_for_the_persons_next_words(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with (
        AibotSimulator(stream_s=0.1) as aibot,
        bot_daemon(tmp_path, model, aibot, mode="webhook") as daemon,
    ):
        gate = model.hold("slow")
        model.expect(Reply(text="at last"), when="slow")
        body = aibot.user_says("alice", "slow")
        await gate.reached
        await aibot.wait_idle()
        # As if a process that has ended since had used it.
        aibot._requests[body["response_url"].rpartition("/")[2]] = {}
        gate.release()
        await daemon.until(outbox.count_by_state, lambda counts: counts.get("held") == 1)
        aibot._stream_s = 360.0
        model.expect(Reply(text="good"), when="and now")
        aibot.user_says("alice", "and now?")
        await aibot.wait_text("at last")
        await aibot.wait_text("good")
        await daemon.until_quiet()
        assert sorted(text for text in aibot.sent() if text) == ["at last", "good"]


@pytest.mark.parametrize("code", [1000, 1001, 1011, None])
async def test_a_lost_connection_is_made_again_and_the_answer_comes(
    tmp_path: Path, model: ModelSimulator, aibot: AibotSimulator, code: int | None
) -> None:
    async with bot_daemon(tmp_path, model, aibot, mode="socket") as daemon:
        gate = model.hold("hi")
        model.expect(Reply(text="still here"), when="hi")
        aibot.user_says("alice", "hi")
        await gate.reached
        if code is None:
            aibot.abort_link()
        else:
            await aibot.close_link(code)
        await aibot.wait_linked(2)
        gate.release()
        await aibot.wait_text("still here")
        await daemon.until_quiet()
        assert aibot.sent("alice") == ["still here"]
