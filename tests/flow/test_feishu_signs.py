"""The reaction that says a message is being answered: gone when it is, whatever happens between."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from clawbot.store import typing_marks
from clawbot.store.typing_marks import Answering
from tests.flow.daemon import Daemon
from tests.flow.feishu_ground import connect, feishu_daemon
from tests.simulators.feishu import FOREVER, FeishuSimulator
from tests.simulators.model import ModelSimulator, Reply, invalid_key

READING = "im:message.reactions:read"


async def until_off(feishu: FeishuSimulator, said: str) -> None:
    await feishu.wait_for(lambda: not feishu.reactions(said), what="no sign")


def is_noted(signs: list[Answering]) -> bool:
    return all(one.mark for one in signs)


async def crash(daemon: Daemon, feishu: FeishuSimulator) -> None:
    """End the channel's process without its last words to Feishu."""
    feishu.fail_next("reaction.delete", "reset_before", FOREVER)
    await daemon.kill("feishu")
    feishu.clear_faults()


@pytest.mark.parametrize("end", ["answer", "stop"])
async def test_a_sign_goes_whose_turn_ended_while_the_channel_was_gone(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator, end: str
) -> None:
    """Without the permission to list reactions too: the sign's id is kept."""
    feishu.take_scope(READING)
    async with feishu_daemon(tmp_path, feishu, model) as daemon:
        model.expect(Reply(text="done"), when="go")
        gate = model.hold(when="go")
        said = await feishu.user_says(feishu.create_dm("alice"), "alice", "go")
        await feishu.wait_for(lambda: feishu.reactions(said) == ["Typing"])
        await gate.reached
        await daemon.until(partial(typing_marks.look, channel="feishu"), is_noted)
        await crash(daemon, feishu)
        assert feishu.reactions(said) == ["Typing"]
        if end == "answer":
            gate.release()
            await model.wait_until(lambda: model.requests[0].outcome == "answered", "an end")
        await daemon.start("feishu")
        await connect(daemon, feishu, "long_connection")
        if end == "stop":
            await feishu.user_says(feishu.create_dm("alice"), "alice", "/stop")
        await until_off(feishu, said)
        await daemon.until_quiet()


async def test_a_sign_goes_when_nothing_can_be_answered(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    feishu.take_scope(READING)
    async with feishu_daemon(tmp_path, feishu, model) as daemon:
        model.expect(invalid_key(), when="go")
        gate = model.hold(when="go")
        said = await feishu.user_says(feishu.create_dm("alice"), "alice", "go")
        await feishu.wait_for(lambda: feishu.reactions(said) == ["Typing"])
        gate.release()
        await feishu.wait_sent()
        await until_off(feishu, said)
        await daemon.until_quiet()
