"""Working memory in the real daemon: worker, store and the simulated model on its own wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.history import EntryKind
from clawbot.session_key import SessionKey
from clawbot.store import events, memories, summaries
from clawbot.work_dirs import work_dir_of
from tests.sessions.ground import Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, Reply, Strictness, ToolCall, Usage

KEY = SessionKey.of_chat("pigeon", "loft")
WINDOW = 6000
SMALL = """\
turns: {max_output_tokens: 500}
compaction: {model: "cheap:summariser"}
"""


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(lambda _: Reply(text="ok")) as simulator:
        yield simulator
        assert simulator.violations == []


def small_config(folder: Path, model: ModelSimulator, *, window: int, extra: str = SMALL) -> Path:
    """A config whose model takes in little, with no more tools than it has room for."""
    path = write_config(folder, model, f"{extra}\ntools: {{offered: [read_file, list_dir]}}\n")
    text = path.read_text()
    url = model.base_url("openai-chat")
    path.write_text(
        text.replace(
            "api_key: made-up}",
            f"api_key: made-up, context_tokens: {window}}}\n"
            f"  cheap: {{base_url: {url}, context_tokens: 32000}}",
        )
    )
    return path


def summaries_of(model: ModelSimulator) -> list[str]:
    """What was given to the summariser."""
    return [r.last_user_text for r in model.requests if "memory of a chat assistant" in r.system]


async def answer_to(here: Chats, command: str) -> str:
    """What a command is answered."""
    await here.send(KEY, command)
    log = await here.daemon.store.read(lambda tx: events.of_session(tx, KEY, 0, limit=10_000))
    return str([event.data["text"] for event in log if event.kind == "notice"][-1])


async def test_C5_a_long_chat_is_summarised_and_goes_on(
    tmp_path: Path, model: ModelSimulator
) -> None:
    model.expect(Reply(text="They agreed on the code word heron."), when="earlier_summary")
    config = small_config(tmp_path, model, window=WINDOW)
    model.strictness = Strictness(context_tokens=WINDOW)
    async with chats(config, model) as here:
        await here.say(KEY, "let the code word be heron")
        for number in range(40):
            await here.say(KEY, f"message {number}: " + "we talk about this and that " * 25)
            if (found := await summary_of(here)) and number > 25:
                break
        assert found is not None
        await here.say(KEY, "what did we agree at the start?")
        last = turns_of(model)[-1]
        assert last.system.count(found) == 1
        assert "You are clawbot" in last.system  # C6: the core rules stand
        assert "message 0:" not in last.all_text
        assert "let the code word be heron" in summaries_of(model)[0]
        status = await answer_to(here, "/context")
        assert "sent as a summary" in status
        assert "openai-chat:scripted" in status
    assert not any(r.outcome == "overflow" for r in model.requests)


async def summary_of(here: Chats) -> str | None:
    found = await here.daemon.store.read(lambda tx: summaries.find(tx, KEY, 0))
    return None if found is None else found.text


async def test_compact_takes_effect_before_the_next_turn(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with chats(small_config(tmp_path, model, window=30_000), model) as here:
        assert "nothing to summarise" in await answer_to(here, "/compact")
        assert "Nothing has been sent" in await answer_to(here, "/context")
        await here.say(KEY, "the code word is heron, and much more is to be said of it " * 20)
        status = await answer_to(here, "/上下文")
        assert "会话内容全部保留" in status
        assert "before your next message" in await answer_to(here, "/compact")
        model.expect(Reply(text="The code word is heron."), when="<record>")
        await here.say(KEY, "what is it?")
        last = turns_of(model)[-1]
        assert last.system.count("The code word is heron.") == 1
        assert [message.text for message in last.messages] == ["what is it?"]


async def test_C7_a_summariser_that_is_down_delays_nobody(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with chats(small_config(tmp_path, model, window=30_000), model) as here:
        await here.say(KEY, "the code word is heron " * 50)
        await answer_to(here, "/compact")
        model.expect(Reply(text="  "), when="<record>")
        assert await here.say(KEY, "what is it?") == "ok"
        assert "the code word is heron" in turns_of(model)[-1].all_text
        assert await here.say(KEY, "and now?") == "ok"
        assert len(summaries_of(model)) == 1  # a wish is not granted at any price


async def test_C10_a_provider_that_counts_more_is_given_less_and_remembered(
    tmp_path: Path, model: ModelSimulator
) -> None:
    extra = "turns: {max_output_tokens: 500}\ncompaction: {enabled: false}\n"
    config = small_config(tmp_path, model, window=WINDOW, extra=extra)
    async with chats(config, model) as here:
        for number in range(12):
            await here.say(KEY, f"{number}: " + "数据库里的消息需要可靠地保存" * 25)
        model.strictness = Strictness(context_tokens=3500)
        assert await here.say(KEY, "还在吗") == "ok"
        refused = [r for r in model.requests if r.outcome == "overflow"]
        assert 0 < len(refused) <= 2
        state = await here.daemon.store.read(lambda tx: memories.find(tx, KEY, 0))
        assert state is not None
        assert state.factor is not None or state.window_tokens is not None
        assert await here.say(KEY, "还在吗，再说一次") == "ok"
        assert [r for r in model.requests if r.outcome == "overflow"] == refused


async def test_C9_a_provider_that_refuses_everything_ends_in_a_clear_message(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with chats(small_config(tmp_path, model, window=WINDOW), model) as here:
        await here.say(KEY, "a word " * 500)
        model.strictness = Strictness(context_tokens=10)
        before = len(model.requests)
        reply = await here.say(KEY, "and now?")
        assert "too long for my language model" in reply
        assert len(model.requests) - before <= 3


async def test_B10_instructions_that_fill_the_window_are_an_admin_s_matter(
    tmp_path: Path, model: ModelSimulator
) -> None:
    extra = SMALL + 'instructions: "' + "be careful with everything " * 2000 + '"\n'
    async with chats(small_config(tmp_path, model, window=WINDOW, extra=extra), model) as here:
        reply = await here.say(KEY, "hello")
        assert "leave no room" in reply
    assert model.requests == []


async def test_B9_a_file_of_megabytes_is_read_in_part_and_the_rest_can_be_reached(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = small_config(tmp_path, model, window=200_000, extra="turns: {result_chars: 4000}\n")
    async with chats(config, model) as here:
        folder = work_dir_of(here.daemon.config.state_dir, KEY)
        folder.mkdir(parents=True)
        (folder / "big.json").write_text(",\n".join(f'{{"row": {n}}}' for n in range(300_000)))
        model.expect(Reply(tool_calls=(read("big.json", limit=20_000),)), when="read it")
        model.expect(Reply(text="read"), marker="characters left out")
        assert await here.say(KEY, "read it") == "read"
        kept = [e for e in await here.history(KEY) if e.kind is EntryKind.TOOL_RESULT]
        assert len(kept[0].text) < 4500
        path = kept[0].text.split('path="')[1].split('"')[0]
        model.expect(Reply(tool_calls=(read(path, offset=1000, limit=2),)), when="row 1000")
        model.expect(Reply(text="found"), marker='{"row": 999}')
        assert await here.say(KEY, "what is row 1000?") == "found"
        other = SessionKey.of_chat("pigeon", "elsewhere")
        model.expect(Reply(tool_calls=(read(path),)), when="other chat")
        model.expect(Reply(text="none"), marker="no such file")
        assert await here.say(other, "in the other chat") == "none"


def read(path: str, **more: int) -> ToolCall:
    """A call of read_file."""
    rest = "".join(f', "{name}": {value}' for name, value in more.items())
    return ToolCall(name="read_file", arguments=f'{{"path": "{path}"{rest}}}')


async def test_B15_a_paste_larger_than_the_window_is_answered(
    tmp_path: Path, model: ModelSimulator
) -> None:
    model.strictness = Strictness(context_tokens=WINDOW)
    async with chats(small_config(tmp_path, model, window=WINDOW), model) as here:
        paste = "what does this mean?\n" + "some line of a long log file\n" * 200_000
        assert await here.say(KEY, paste) == "ok"
    (request,) = turns_of(model)
    assert "what does this mean?" in request.last_user_text
    assert f"of {len(paste):,} characters left out" in request.last_user_text


async def test_T_the_factor_is_learned_from_reports_and_kept_with_the_session(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = small_config(tmp_path, model, window=WINDOW)
    async with chats(config, model) as here:
        model.expect(
            Reply(text="ok", usage=Usage(input_tokens=6000, output_tokens=1, cached_tokens=2000)),
            when="first",
        )
        await here.say(KEY, "first " * 3800)
        state = await here.daemon.store.read(lambda tx: memories.find(tx, KEY, 0))
        assert state is not None
        assert state.factor is not None
        assert state.factor > 1.2
