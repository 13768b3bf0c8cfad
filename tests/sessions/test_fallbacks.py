"""Scenario H11 through the daemon: another model answers, it is told where it is due, and ends."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from clawbot.config import Models
from clawbot.intake import admit_for_session
from clawbot.session_key import SessionKey
from clawbot.store import costs, events, processes
from tests.sessions.ground import chats, turns_of, write_config
from tests.sessions.scenes import asked as asked_for
from tests.simulators.model import ModelSimulator, Refusal, Reply

A = SessionKey.of_chat("web", "a")
SPARE = "fallbacks: ['openai-chat:spare']"


@pytest.mark.parametrize("status", [401, 402])
async def test_another_model_answers_instead_and_status_and_costs_say_so(
    tmp_path: Path, model: ModelSimulator, status: int
) -> None:
    model.expect(Refusal(status=status), when="hello")
    model.expect(Reply(text="from the spare one"), when="hello")
    model.expect(Reply(text="still"), when="again")
    async with chats(write_config(tmp_path, model, SPARE), model) as chat:
        with structlog.testing.capture_logs() as logged:
            assert await chat.say(A, "hello") == "from the spare one"
        (told,) = [line for line in logged if line["event"] == "model_fallback"]
        assert (told["model"], told["to"]) == ("openai-chat:scripted", "openai-chat:spare")
        assert await chat.say(A, "again") == "still"
        asked = [request.body["model"] for request in turns_of(model)]
        assert asked == ["scripted", "spare", "spare"]
        rows = await chat.daemon.until(
            processes.live, lambda found: any(row.facts for row in found)
        )
        (facts,) = [row.facts for row in rows if row.facts]
        assert list(facts) == ["model openai-chat:scripted"]
        models, question = Models(usual="openai-chat:scripted"), asked_for("s1", "/status")
        await chat.daemon.store.write(
            lambda tx: admit_for_session(tx, question, A, models, 1_760_000_000_000)
        )
        told_here = await chat.daemon.store.read(lambda tx: events.of_session(tx, A, 0))
        assert "another one answers meanwhile" in told_here[-1].data["text"]
        by_model = dict(await chat.daemon.store.read(lambda tx: costs.by(tx, "model")))
        assert by_model["openai-chat:scripted"].failed == 1
        assert by_model["openai-chat:spare"].calls == 2


async def test_without_a_fallback_a_refused_key_is_a_visible_error(
    tmp_path: Path, model: ModelSimulator
) -> None:
    model.expect(Refusal(status=401), when="hello")
    async with chats(write_config(tmp_path, model), model) as chat:
        assert "cannot reach my language model" in await chat.say(A, "hello")
    assert len(turns_of(model)) == 1
