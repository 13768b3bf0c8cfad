"""Scenarios A11, E4, E6 and E7: what a session has of its own, and that nothing else holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from clawbot.session_key import SessionKey
from clawbot.store import session_admin
from clawbot.work_dirs import checked_dirs, work_dirs_of
from tests.contracts.store.scenes import NOW_MS
from tests.sessions.ground import Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall

A = SessionKey.of_chat("web", "a")
B = SessionKey.of_chat("web", "b")


async def set_of(
    chat: Chats, key: SessionKey, *, unset: Sequence[str] = (), **values: object
) -> None:
    await chat.daemon.store.write(
        lambda tx: session_admin.change_settings(tx, key, values, NOW_MS, unset=unset)
    )


def asked_with(model: ModelSimulator) -> tuple[object, object, object]:
    """The model, temperature and output limit of the newest request."""
    body = turns_of(model)[-1].body
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    return body["model"], body.get("temperature"), limit


async def test_e4_a_session_s_own_settings_count_from_its_next_turn_and_for_it_alone(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, "turns: {temperature: 0.1, max_output_tokens: 1000}")
    async with chats(config, model) as chat:
        await chat.say(A, "one")
        assert asked_with(model) == ("scripted", 0.1, 1000)
        await set_of(chat, A, model="openai-chat:other", temperature=0.9, max_output_tokens=500)
        await chat.say(A, "two")
        assert asked_with(model) == ("other", 0.9, 500)
        await chat.say(B, "one")
        assert asked_with(model) == ("scripted", 0.1, 1000)
    async with chats(config, model) as chat:
        await chat.say(A, "after a restart")
        assert asked_with(model) == ("other", 0.9, 500)
        await set_of(chat, A, unset=["model", "temperature"])
        await chat.say(A, "three")
        assert asked_with(model) == ("scripted", 0.1, 500)


async def test_e4_a_running_turn_ends_with_the_settings_it_began_with(
    tmp_path: Path, model: ModelSimulator
) -> None:
    gate = model.hold(when="one")
    model.expect(Reply(tool_calls=(ToolCall(name="list_dir", arguments={}),)), when="one")
    config = write_config(tmp_path, model)
    async with chats(config, model) as chat:
        accepted = await chat.send(A, "one")
        await gate.reached
        await set_of(chat, A, model="openai-chat:other")
        gate.release()
        await chat.answered(A, accepted)
        assert [request.body["model"] for request in turns_of(model)] == ["scripted", "scripted"]
        await chat.say(A, "two")
        assert turns_of(model)[-1].body["model"] == "other"


async def test_e4_bounds_of_steps_and_history_are_the_session_s_own(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model)
    async with chats(config, model) as chat:
        for number in range(4):
            await chat.say(A, f"message {number}")
            await chat.say(B, f"message {number}")
        await set_of(chat, A, history_messages=2)
        await chat.say(A, "last")
        assert "message 0" not in turns_of(model)[-1].all_text
        await chat.say(B, "last")
        assert "message 0" in turns_of(model)[-1].all_text
        await set_of(chat, A, max_steps=1)
        model.expect(Reply(tool_calls=(ToolCall(name="list_dir", arguments={}),)), when="work")
        assert "error" in await chat.say(A, "work")


async def test_e4_a_session_s_own_token_budget_bounds_its_requests_alone(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, "compaction: {enabled: false}")
    long = "word " * 12_000 + "end"
    async with chats(config, model) as chat:
        for key in (A, B):
            await chat.say(key, f"first {long}")
            await chat.say(key, f"second {long}")
        await set_of(chat, A, request_tokens=8000, max_output_tokens=200)
        await set_of(chat, B, max_output_tokens=200)
        await chat.say(A, "last")
        assert f"first {long}" not in turns_of(model)[-1].all_text
        assert "last" in turns_of(model)[-1].last_user_text
        await chat.say(B, "last")
        assert f"first {long}" in turns_of(model)[-1].all_text


async def test_e4_a_channel_has_its_own_bounds_below_the_session_s(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(
        tmp_path,
        model,
        """
        turns: {max_output_tokens: 1000}
        channels:
          slack:
            mode: http
            bot_token: xoxb-made-up
            signing_secret: made-up
            model: openai-chat:channels
            turns: {max_output_tokens: 700, temperature: 0.3}
        """,
    )
    key = SessionKey.of_chat("slack", "C1")
    async with chats(config, model) as chat:
        await chat.say(key, "from the page into the chat's session")
        assert asked_with(model) == ("channels", 0.3, 700)
        await set_of(chat, key, max_output_tokens=70)
        await chat.say(key, "again")
        assert asked_with(model) == ("channels", 0.3, 70)


async def test_e4_a_model_that_the_config_no_longer_knows_is_a_visible_error(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model)
    async with chats(config, model) as chat:
        await chat.say(A, "one")
        await set_of(chat, A, model="gone:x")
        assert "cannot reach my language model" in await chat.say(A, "two")
        await set_of(chat, A, unset=["model"])
        assert await chat.say(A, "three") == "ok"


async def test_a11_a_session_with_two_directories_reads_in_both_and_begins_in_the_first(
    tmp_path: Path, model: ModelSimulator
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "both.md").write_text(f"both of {folder.name}")
    (second / "only.md").write_text("only in the second")
    config = write_config(tmp_path, model)
    async with chats(config, model) as chat:
        state_dir = chat.daemon.config.state_dir
        dirs = await asyncio.to_thread(checked_dirs, state_dir, [first, second])
        await chat.daemon.store.write(
            lambda tx: session_admin.open_session(tx, A, NOW_MS, work_dirs=dirs)
        )
        calls = [
            *("both.md", "only.md", str(second / "both.md")),
            *("../clawbot-a.yaml", str(tmp_path / "clawbot-a.yaml")),
        ]
        model.expect(
            Reply(
                tool_calls=tuple(
                    ToolCall(name="read_file", arguments={"path": path}) for path in calls
                )
            ),
            when="read",
        )
        model.expect(Reply(tool_calls=(ToolCall(name="list_dir", arguments={}),)), when="list")
        command = f"pwd; cat {second}/only.md; echo x > {second}/made; cat ../clawbot-a.yaml"
        bash = ToolCall(name="bash", arguments={"command": command})
        model.expect(Reply(tool_calls=(bash,)), when="run")
        await chat.say(A, "read")
        await chat.say(A, "list")
        await chat.say(A, "run")
        results = [entry for entry in await chat.history(A) if entry.kind == "tool_result"]
        by_call = {entry.call_id: entry for entry in results}
        asked = [entry for entry in await chat.history(A) if entry.kind == "tool_call"]
        texts = [by_call[entry.call_id].text.partition("\n")[0] for entry in asked]
        assert texts[:3] == ["both of first", "only in the second", "both of second"]
        assert [by_call[entry.call_id].is_error for entry in asked[3:5]] == [True, True]
        assert texts[5].startswith("both.md")
        assert "only.md" not in by_call[asked[5].call_id].text
        ran = by_call[asked[6].call_id]
        assert ran.text.startswith(f"{first}\nonly in the second")
        assert "No such file" in ran.text
        assert (second / "made").read_text() == "x\n"


async def test_a_channel_may_give_each_session_its_own_directory_or_share_some(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(
        tmp_path,
        model,
        """
        channels:
          slack:
            mode: http
            bot_token: xoxb-made-up
            signing_secret: made-up
            workdir: session
            shared_dirs: [handbook]
          slack-2: {type: slack, mode: http, bot_token: xoxb-made-up, signing_secret: made-up}
        """,
    )
    async with chats(config, model) as chat:
        loaded = chat.daemon.config

        def dirs(key: SessionKey) -> tuple[Path, ...]:
            return work_dirs_of(loaded, key.channel or "", key)

        chat_1 = SessionKey.of_chat("slack", "C1")
        assert dirs(chat_1)[1:] == (tmp_path / "handbook",)
        alone = [chat_1, chat_1.with_task("7"), SessionKey.of_chat("slack", "C1", thread="1")]
        assert len({dirs(key)[0] for key in alone}) == 3
        chat_2 = SessionKey.of_chat("slack-2", "C1")
        shared = [chat_2, chat_2.with_task("7"), SessionKey.of_chat("slack-2", "C1", thread="1")]
        assert len({dirs(key) for key in shared}) == 1
        assert dirs(SessionKey.of_chat("slack-2", "C2")) != dirs(chat_2)


async def test_e6_a_session_is_the_same_whoever_runs_its_next_turn(
    tmp_path: Path, model: ModelSimulator
) -> None:
    """Nothing of a session is kept in a process: a request after a restart is the one that would
    have been made without it."""
    bodies = []
    for restarts in (False, True):
        config = write_config(tmp_path, model, name=f"state-{restarts}")
        async with chats(config, model) as chat:
            model.expect(Reply(tool_calls=(ToolCall(name="list_dir", id="c"),)), when="one")
            await chat.say(A, "one")
            await chat.say(A, "two")
            if restarts:
                await chat.daemon.stop("worker")
                await chat.daemon.start("worker-2")
            await chat.say(A, "three")
            bodies.append(turns_of(model)[-1].body)
    assert bodies[0] == bodies[1]


async def test_e7_two_workers_on_one_store_answer_each_message_once(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model)
    async with chats(config, model) as chat:
        await chat.daemon.start("worker-2")
        keys = [SessionKey.of_chat("web", f"c{number}") for number in range(20)]
        sent = await asyncio.gather(
            *(chat.send(key, f"{key} {number}") for number in range(2) for key in keys)
        )
        for key, accepted in zip(keys * 2, sent, strict=True):
            await chat.answered(key, accepted)
        for key in keys:
            said = [entry.text for entry in await chat.history(key) if entry.kind == "user"]
            assert said == [f"{key} 0", f"{key} 1"]
