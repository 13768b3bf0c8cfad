"""Scenario E5 of a busy session: deletion, reset, archiving while the real worker runs a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clawbot.session_key import SessionKey
from clawbot.store import deletion, session_admin
from tests.contracts.store.scenes import NOW_MS
from tests.sessions.ground import chats, turns_of, write_config
from tests.sessions.scenes import rows_about
from tests.simulators.model import ModelSimulator, Reply, ToolCall

A = SessionKey.of_chat("web", "a")
B = SessionKey.of_chat("web", "b")


async def test_e5_deletion_ends_the_call_that_runs_and_leaves_other_sessions_alone(
    tmp_path: Path, model: ModelSimulator
) -> None:
    gate, other = model.hold(when="token_12345"), model.hold(when="other")
    async with chats(write_config(tmp_path, model), model) as chat:
        await chat.send(A, "token_12345")
        beside = await chat.send(B, "other")
        await gate.reached
        await other.reached
        done = await chat.daemon.store.write(lambda tx: deletion.delete_session(tx, A, NOW_MS))
        assert done.had_turn
        (cut,) = [call for call in turns_of(model) if "token_12345" in call.all_text]
        await model.wait_until(lambda: cut.outcome == "disconnected", "the call was cut off")
        other.release()
        assert await chat.answered(B, beside) == "ok"
        assert await chat.daemon.store.read(lambda tx: rows_about(tx, "token_12345")) == []
        assert await chat.say(A, "a new life") == "ok"
        assert [message.text for message in turns_of(model)[-1].messages] == ["a new life"]


@pytest.mark.parametrize("deletes", [True, False])
async def test_e5_what_a_turn_does_after_its_session_s_end_or_reset_is_in_no_later_request(
    tmp_path: Path, model: ModelSimulator, deletes: bool
) -> None:
    model.expect(
        Reply(text="step token_12345", tool_calls=(ToolCall(name="list_dir", arguments={}),)),
        when="work",
    )
    gate = model.hold(when=lambda request: "step token_12345" in request.all_text)
    async with chats(write_config(tmp_path, model), model) as chat:
        await chat.send(A, "work")
        await gate.reached
        change = deletion.delete_session if deletes else session_admin.reset
        sent = await asyncio.gather(
            chat.daemon.store.write(lambda tx: change(tx, A, NOW_MS)), chat.send(A, "later")
        )
        await chat.answered(A, sent[1])
        assert "token_12345" not in turns_of(model)[-1].all_text
        assert turns_of(model)[-1].last_user_text == "later"


async def test_e5_an_archived_session_ends_its_turn_as_usual(
    tmp_path: Path, model: ModelSimulator
) -> None:
    gate = model.hold(when="work")
    async with chats(write_config(tmp_path, model), model) as chat:
        accepted = await chat.send(A, "work")
        await gate.reached
        await chat.daemon.store.write(
            lambda tx: session_admin.set_archived(tx, A, NOW_MS, archived=True)
        )
        gate.release()
        assert await chat.answered(A, accepted) == "ok"
        info = await chat.daemon.store.read(lambda tx: session_admin.get(tx, A))
        assert info.archived
