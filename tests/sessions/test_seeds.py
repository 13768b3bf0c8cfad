"""Scenarios D1-D11: the context document of a sub-session."""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path

import pytest

from clawbot.config_sections import TasksConfig
from clawbot.errors import TurnStopped
from clawbot.history import EntryKind
from clawbot.ports import Store
from clawbot.seed import build_seed, given_seed
from clawbot.session_key import SessionKey
from clawbot.store import copies, seeds, stops
from clawbot.store.schema import seeds as seed_rows
from tests.contracts.store.scenes import NOW_MS
from tests.sessions import scenes
from tests.sessions.ground import GLOBAL, Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, RecordedRequest, Refusal, Reply, ToolCall

TASK = SessionKey.of_global().with_task("7")
MARK = "The ticket says: paint it blue."
REMINDER = "This conversation is about task 7."
SEEDED = """
tasks:
  seed: "Context of {task}."
  files: ["tickets/{task}.md"]
turns: {max_steps: 5}
"""


@pytest.fixture
def config(tmp_path: Path, model: ModelSimulator) -> Path:
    (tmp_path / "tickets").mkdir()
    (tmp_path / "tickets" / "7.md").write_text(MARK)
    return write_config(tmp_path, model, SEEDED)


async def stored(chat: Chats) -> list[tuple[int, str]]:
    rows = await chat.daemon.store.read(
        lambda tx: (
            tx.conn.execute(seed_rows.select().order_by(seed_rows.c.session_key, seed_rows.c.epoch))
            .mappings()
            .all()
        )
    )
    return [(row["epoch"], row["text"]) for row in rows]


def holds_once(request: RecordedRequest) -> bool:
    """Whether the seed stands exactly once in a request, in its fixed part."""
    return request.all_text.count(MARK) == 1 == request.system.count(MARK)


async def test_d1_every_request_of_50_turns_holds_the_seed_once_and_grows_by_the_same(
    config: Path, model: ModelSimulator
) -> None:
    async with chats(config, model) as chat:
        for turn in range(50):
            await chat.say(TASK, f"message {turn:02}")
        requests = turns_of(model)
        assert len(requests) == 50
        assert all(holds_once(request) for request in requests)
        assert await stored(chat) == [(0, f"Context of 7.\n\n{MARK}")]
        reminders = [request.all_text.count(REMINDER) for request in requests]
        assert reminders == list(range(50))
        sizes = [len(request.all_text) for request in requests]
        growth = {later - earlier for earlier, later in pairwise(sizes[1:])}
        assert len(growth) == 1
        newest = requests[-1].messages[-1]
        assert newest.role == "user"
        assert REMINDER in newest.text
        assert newest.text.endswith("message 49")
        entries = await chat.history(TASK)
        assert not any(entry.kind is EntryKind.SEED for entry in entries)


async def test_d2_a_restart_between_the_turns_does_not_seed_again(
    config: Path, model: ModelSimulator
) -> None:
    async with chats(config, model) as chat:
        await chat.say(TASK, "one")
        before = await stored(chat)
    async with chats(config, model) as chat:
        await chat.say(TASK, "two")
        assert await stored(chat) == before
    assert [holds_once(request) for request in turns_of(model)] == [True, True]


@pytest.mark.parametrize("steps", [0, 1])
async def test_d3_a_first_turn_that_fails_before_or_after_a_step_leaves_one_seed(
    config: Path, model: ModelSimulator, steps: int
) -> None:
    for _ in range(steps):
        model.expect(Reply(tool_calls=(ToolCall(name="list_dir", arguments={}),)), when="one")
    model.expect(Refusal(status=401), when="one")
    async with chats(config, model) as chat:
        await chat.say(TASK, "one")
        await chat.say(TASK, "two")
        assert len(await stored(chat)) == 1
    assert all(holds_once(request) for request in turns_of(model))


async def test_d3_a_first_turn_whose_worker_died_is_resumed_with_one_seed(
    config: Path, model: ModelSimulator
) -> None:
    gate = model.hold(when="one")
    async with chats(config, model) as chat:
        accepted = await chat.send(TASK, "one")
        await gate.reached
        task, _ = chat.daemon.running.pop("worker")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await chat.daemon.start("worker-2")
        assert await chat.answered(TASK, accepted) == "ok"
        assert len(await stored(chat)) == 1
    assert len(turns_of(model)) == 2
    assert all(holds_once(request) for request in turns_of(model))


async def test_d4_two_messages_that_race_for_the_first_turn_make_one_seed(
    config: Path, model: ModelSimulator
) -> None:
    async with chats(config, model) as chat:
        await chat.daemon.start("worker-2")
        sent = await asyncio.gather(chat.send(TASK, "one"), chat.send(TASK, "two"))
        for accepted in sent:
            await chat.answered(TASK, accepted)
        assert len(await stored(chat)) == 1
    assert all(holds_once(request) for request in turns_of(model))


async def test_d5_the_seed_stays_when_most_of_the_history_is_left_out(
    tmp_path: Path, config: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, SEEDED.replace("max_steps: 5", "history_messages: 4"))
    async with chats(config, model) as chat:
        for turn in range(8):
            await chat.say(TASK, f"message {turn}")
    assert all(holds_once(request) for request in turns_of(model))
    assert "message 0" not in turns_of(model)[-1].all_text


async def test_d6_a_new_epoch_is_seeded_anew_from_what_the_source_says_then(
    config: Path, model: ModelSimulator
) -> None:
    async with chats(config, model) as chat:
        await chat.say(TASK, "one")
        (config.parent / "tickets" / "7.md").write_text("The ticket says: red.")
        await chat.say(TASK, "/new")
        await chat.say(TASK, "two")
        assert await stored(chat) == [
            (0, f"Context of 7.\n\n{MARK}"),
            (1, "Context of 7.\n\nThe ticket says: red."),
        ]
    assert MARK not in turns_of(model)[-1].all_text
    assert REMINDER not in turns_of(model)[-1].all_text


async def test_d6_a_document_that_was_given_with_the_task_is_taken_over(
    config: Path, model: ModelSimulator
) -> None:
    async with chats(config, model) as chat:
        await chat.daemon.store.write(lambda tx: seeds.give(tx, TASK, given_seed(MARK), NOW_MS))
        await chat.say(TASK, "one")
        await chat.say(TASK, "/new")
        await chat.say(TASK, "two")
        assert await stored(chat) == [(0, MARK), (1, MARK)]
    assert all(holds_once(request) for request in turns_of(model))


async def test_d7_a_fork_inherits_the_seed_once(config: Path, model: ModelSimulator) -> None:
    fork = GLOBAL.with_task("8")
    async with chats(config, model) as chat:
        await chat.say(TASK, "one")
        await chat.daemon.store.write(lambda tx: copies.fork(tx, TASK, fork, NOW_MS))
        (config.parent / "tickets" / "8.md").write_text("Another ticket.")
        await chat.say(fork, "two")
        assert len(await stored(chat)) == 2
    assert holds_once(turns_of(model)[-1])
    assert "Another ticket." not in turns_of(model)[-1].all_text
    assert turns_of(model)[-1].messages[0].text == "one"


async def test_d8_a_source_that_changes_is_not_sent_again_and_the_reminder_says_to_ask(
    config: Path, model: ModelSimulator
) -> None:
    async with chats(config, model) as chat:
        await chat.say(TASK, "one")
        (config.parent / "tickets" / "7.md").write_text("The ticket says: red.")
        await chat.say(TASK, "two")
    assert holds_once(turns_of(model)[-1])
    assert "red" not in turns_of(model)[-1].all_text
    assert "ask for the live state by tool" in turns_of(model)[-1].messages[-1].text


async def test_d9_a_seed_that_is_too_long_is_cut_and_says_where_all_of_it_can_be_read(
    tmp_path: Path, config: Path, model: ModelSimulator
) -> None:
    lines = "\n".join(f"line {number} 蓝色" for number in range(2000))
    (tmp_path / "tickets" / "7.md").write_text(f"{MARK}\n{lines}\nthe very end")
    config = write_config(tmp_path, model, SEEDED.replace("tasks:", "tasks:\n  seed_bytes: 2000"))
    async with chats(config, model) as chat:
        await chat.say(TASK, "one")
        system = turns_of(model)[-1].system
        assert holds_once(turns_of(model)[-1])
        assert "the very end" not in system
        assert len(system) < 5000
        size = len(f"Context of 7.\n\n{MARK}\n{lines}\nthe very end".encode())
        assert f"of {size:,} bytes are left out here" in system
        path = system.partition("stands in the file ")[2].partition(" ")[0]
        arguments = {"path": path, "offset": 2004}
        model.expect(
            Reply(tool_calls=(ToolCall(name="read_file", arguments=arguments),)), when="the end?"
        )
        await chat.say(TASK, "the end?")
        results = [entry for entry in await chat.history(TASK) if entry.kind == "tool_result"]
    assert results[-1].text.startswith("the very end")


@pytest.mark.parametrize("fault", ["a directory", "a pipe that nobody writes"])
async def test_d10_a_seed_that_fails_or_hangs_lets_the_turn_go_on_flagged_and_comes_later(
    tmp_path: Path, config: Path, model: ModelSimulator, fault: str
) -> None:
    source = tmp_path / "tickets" / "7.md"
    source.unlink()
    source.mkdir() if fault == "a directory" else os.mkfifo(source)
    config = write_config(
        tmp_path, model, SEEDED.replace("tasks:", "tasks:\n  seed_timeout_s: 0.2")
    )
    async with chats(config, model) as chat:
        assert await chat.say(TASK, "one") == "ok"
        assert "cannot be read now" in turns_of(model)[-1].system
        assert await stored(chat) == []
        if fault == "a directory":
            source.rmdir()
        else:
            # The reader that still waits must come to its end.
            os.close(os.open(source, os.O_RDWR | os.O_NONBLOCK))
            source.unlink()
        source.write_text(MARK)
        await chat.say(TASK, "two")
        assert len(await stored(chat)) == 1
    assert holds_once(turns_of(model)[-1])
    assert "cannot be read now" not in turns_of(model)[-1].system


async def test_d11_a_sub_session_has_no_global_context_and_the_base_session_no_seed(
    tmp_path: Path, config: Path, model: ModelSimulator
) -> None:
    (tmp_path / "team.md").write_text("The team likes green.")
    config = write_config(tmp_path, model, f"{SEEDED}\ncontext: [team.md]\ninstructions: Be kind.")
    async with chats(config, model) as chat:
        await chat.say(GLOBAL, "one")
        await chat.say(TASK, "two")
        assert len(await stored(chat)) == 1
    base, task = turns_of(model)
    assert ("green" in base.all_text, MARK in base.all_text) == (True, False)
    assert ("green" in task.all_text, MARK in task.all_text) == (False, True)
    for request in (base, task):
        assert "Be kind." in request.system
        assert "You are clawbot" in request.system
    assert REMINDER not in base.all_text


def test_a_task_s_id_cannot_lead_out_of_the_folder_of_its_document(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "tickets" / "a").mkdir(parents=True)
    for name in ("tickets/{task}.md", "tickets/{task}/secret.md", "tickets/a/{task}/secret.md"):
        tasks = TasksConfig.model_construct(seed="", files=(tmp_path / name,))
        for task in ("../secret", "..", ".", "/etc/passwd", "a/../../secret", "\0"):
            assert build_seed(tasks, GLOBAL.with_task(task), "") is None


async def test_a_stopped_turn_keeps_no_seed(store: Store) -> None:
    await scenes.ask(store, TASK, "x")
    (turn,) = await scenes.claim(store)
    await store.write(lambda tx: stops.stop(tx, TASK, NOW_MS))
    with pytest.raises(TurnStopped):
        await store.write(
            lambda tx: seeds.record(tx, turn=turn, seed=given_seed("x"), now_ms=NOW_MS)
        )
    assert await store.read(lambda tx: seeds.find(tx, TASK, 0)) is None
