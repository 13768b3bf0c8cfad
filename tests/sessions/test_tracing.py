"""H9: the trace of a turn is complete however it ends, holds no secret, and collides with none."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import structlog

from clawbot.session_key import SessionKey
from clawbot.store import processes
from clawbot.tracing import files
from clawbot.tracing.files import SpanRecord, TraceRecord
from tests.flow.daemon import Daemon, run_daemon
from tests.process.waiting import eventually
from tests.sessions.ground import Chats, write_config
from tests.simulators.collector import Collector, SeenSpan
from tests.simulators.model import ModelSimulator, Refusal, Reply, ToolCall, Usage
from tests.tools import Deploy, Echo, Wait

A = SessionKey.of_chat("web", "a")
B = SessionKey.of_chat("web", "b")
KEPT = "tracing: {files: true}"


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector() as running:
        yield running


def sent_to(collector: Collector, more: str = "") -> str:
    return f'tracing: {{files: true, otlp_endpoint: "{collector.url}"{more}}}'


def call(tool: str, text: str = "x") -> Reply:
    return Reply(tool_calls=(ToolCall(name=tool, arguments={"text": text}),))


def kept(daemon: Daemon, count: int = 100) -> list[TraceRecord]:
    """The attempts, oldest first."""
    return list(files.newest(daemon.config.state_dir, count))[::-1]


async def until_kept(daemon: Daemon, count: int) -> list[TraceRecord]:
    """The attempts, once so many have ended: a trace is written down after its turn."""
    return await until(daemon, lambda all_: sum(bool(one.outcome) for one in all_) >= count)


async def until(daemon: Daemon, is_right: Callable[[list[TraceRecord]], bool]) -> list[TraceRecord]:
    """The attempts, once they are right."""
    async with asyncio.timeout(60):
        while True:
            found = await asyncio.to_thread(kept, daemon)
            if is_right(found):
                return found
            await asyncio.sleep(0.02)


def tree(spans: Sequence[SpanRecord] | Sequence[SeenSpan], parent: str = "") -> list[object]:
    """Names with errors, children in lists after their parents; every span, or the test fails."""
    shown: list[object] = []
    for span in sorted(spans, key=lambda one: one.started_ns):
        if span.parent_id == parent:
            shown.append(f"{span.name} ! {span.error}" if span.error else span.name)
            if below := tree(spans, span.span_id):
                shown.append(below)
    if not parent:
        assert len(str(shown).split("'")) // 2 == len(spans), "a span hangs on nothing"
    return shown


def all_ended(spans: Sequence[SpanRecord]) -> bool:
    return all(span.ended_ns is not None and span.ended_ns >= span.started_ns for span in spans)


async def test_H9_a_turn_is_a_tree_of_its_steps_models_and_tools(
    tmp_path: Path, model: ModelSimulator, collector: Collector
) -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=60)
    two = Reply(
        text="I look.",
        tool_calls=(
            ToolCall(name="echo", arguments={"text": "one"}),
            ToolCall(name="read_file", arguments={"path": "none.txt"}),
        ),
        usage=usage,
    )
    model.expect(two, when="hello")
    model.expect(Reply(text="Done."), when="hello")
    more = ', otlp_headers: {x-tenant: "team-7"}'
    config = write_config(tmp_path, model, sent_to(collector, more))
    async with run_daemon(config, "worker", tools=[Echo()]) as daemon:
        chat = Chats(daemon=daemon, model=model)
        assert "Done." in await chat.say(A, "hello")
        (record,) = await until_kept(daemon, 1)
        seen = await collector.wait_spans(lambda all_: any(s.name == "turn" for s in all_))
    wanted = [
        "turn",
        [
            "invoke_agent clawbot",
            [
                "step 1",
                ["chat scripted", "execute_tool echo", "execute_tool read_file ! tool_error"],
                "step 2",
                ["chat scripted"],
            ],
        ],
    ]
    assert tree(record.spans) == tree(seen) == wanted
    assert all_ended(record.spans)
    assert {span.trace_id for span in seen} == {record.trace_id} == {record.turn}
    by_id = {span.span_id: span for span in seen}
    for span in record.spans:  # both ways tell the same
        other = by_id[span.span_id]
        assert (other.started_ns, other.ended_ns) == (span.started_ns, span.ended_ns)
        assert (
            json.loads(json.dumps(other.attributes))
            == json.loads(span.model_dump_json(include={"attributes"}))["attributes"]
        )
    first = next(span for span in seen if span.name == "chat scripted")
    assert first.kind == 3  # a client's
    told = first.attributes
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "openai-chat"
    assert told["gen_ai.request.model"] == "scripted"
    assert told["gen_ai.usage.input_tokens"] == 100
    assert told["gen_ai.usage.output_tokens"] == 7
    assert told["gen_ai.usage.cache_read.input_tokens"] == 60
    assert told["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert 0 < told["gen_ai.response.time_to_first_chunk"] < 20
    (turn,) = [span for span in seen if span.name == "turn"]
    assert turn.attributes["gen_ai.conversation.id"] == str(A)
    assert turn.attributes["clawbot.outcome"] == "done"
    assert turn.resource["service.name"] == "clawbot"
    assert collector.headers[0]["x-tenant"] == "team-7"


async def test_H9_every_try_of_every_model_stands_in_the_tree_of_a_turn_that_fails(
    tmp_path: Path, model: ModelSimulator
) -> None:
    model.expect(Refusal(status=503, retry_after=0), when="hello")
    model.expect(Refusal(status=401), when="hello")
    model.expect(Refusal(status=402), when="hello")
    config = write_config(tmp_path, model, f"{KEPT}\nfallbacks: ['openai-chat:spare']")
    async with run_daemon(config, "worker") as daemon:
        answer = await Chats(daemon=daemon, model=model).say(A, "hello")
        (record,) = await until_kept(daemon, 1)
    calls = ["chat scripted ! retryable", "chat scripted ! auth", "chat spare ! quota"]
    agent = ["invoke_agent clawbot ! failed", ["step 1 ! quota", calls]]
    assert tree(record.spans) == ["turn ! failed", agent]
    assert all_ended(record.spans)
    assert str(record.spans[0].attributes["clawbot.error_id"]) in answer


async def test_H9_a_stopped_turn_shows_what_it_was_at(
    tmp_path: Path, model: ModelSimulator, collector: Collector
) -> None:
    wait = Wait()
    model.expect(call("wait"), when="hello")
    config = write_config(tmp_path, model, sent_to(collector))
    async with run_daemon(config, "worker", tools=[wait]) as daemon:
        chat = Chats(daemon=daemon, model=model)
        asked = await chat.send(A, "hello")
        await wait.until_begun("x")
        await chat.send(A, "/stop")
        await chat.answered(A, asked)
        (record,) = await until_kept(daemon, 1)
        seen = await collector.wait_spans(lambda all_: any(s.name == "turn" for s in all_))
    inner = ["step 1 ! cancelled", ["chat scripted", "execute_tool wait ! cancelled"]]
    assert tree(record.spans) == tree(seen) == ["turn", ["invoke_agent clawbot", inner]]
    assert record.outcome == "stopped"
    assert all_ended(record.spans)


async def test_H9_what_waits_for_people_goes_on_in_the_same_tree(
    tmp_path: Path, model: ModelSimulator
) -> None:
    deploy = Deploy()
    model.expect(call("deploy"), when="ship it")
    model.expect(Reply(text="Shipped."), marker="deployed x")
    async with run_daemon(write_config(tmp_path, model, KEPT), "worker", tools=[deploy]) as daemon:
        chat = Chats(daemon=daemon, model=model)
        asked = await chat.send(A, "ship it")
        (parked,) = await until_kept(daemon, 1)
        assert parked.outcome == "parked"
        await chat.send(A, "/approve")
        assert "Shipped." in await chat.answered(A, asked)
        first, second = await until_kept(daemon, 2)
    assert first == parked, "an earlier attempt's file stays as it is"
    assert (first.turn, first.trace_id) == (second.turn, second.trace_id)
    assert first.fence < second.fence
    assert tree([*first.spans, *second.spans]) == [
        "turn",
        [
            "invoke_agent clawbot",
            ["step 1", ["chat scripted", "execute_tool deploy"]],
            "invoke_agent clawbot",
            ["step 1", ["execute_tool deploy"], "step 2", ["chat scripted"]],
        ],
    ]
    (waited,) = [span for span in first.spans if span.name == "execute_tool deploy"]
    assert waited.attributes["clawbot.outcome"] == "parked"
    turn = next(span for span in second.spans if span.name == "turn")
    assert turn.started_ns < first.spans[0].started_ns + 1_000_000


async def test_H9_sub_agents_stand_below_the_call_that_asked_for_them(
    tmp_path: Path, model: ModelSimulator
) -> None:
    ask = Reply(tool_calls=(ToolCall(name="subagent", arguments={"task": "look at the north"}),))
    model.expect(ask, when="explore")
    look = Reply(tool_calls=(ToolCall(name="list_dir", arguments={"path": "."}),))
    model.expect(look, when="look at the north")
    model.expect(Reply(text="Nothing there."), when="look at the north")
    model.expect(Reply(text="They found nothing."), when="explore")
    async with run_daemon(write_config(tmp_path, model, KEPT), "worker") as daemon:
        await Chats(daemon=daemon, model=model).say(A, "explore")
        (record,) = await until_kept(daemon, 1)
    helper = [
        "invoke_agent subagent",
        ["step 1", ["chat scripted", "execute_tool list_dir"], "step 2", ["chat scripted"]],
    ]
    steps = [
        "step 1",
        ["chat scripted", "execute_tool subagent", helper],
        "step 2",
        ["chat scripted"],
    ]
    assert tree(record.spans) == ["turn", ["invoke_agent clawbot", steps]]


async def test_H9_a_summary_that_is_written_after_the_turn_is_added_to_its_trace(
    tmp_path: Path, model: ModelSimulator
) -> None:
    path = write_config(
        tmp_path,
        model,
        f"{KEPT}\nturns: {{max_output_tokens: 500}}\ntools: {{offered: [read_file]}}",
    )
    text = path.read_text().replace("made-up}", "made-up, context_tokens: 6000}")
    await asyncio.to_thread(path.write_text, text)
    async with run_daemon(path, "worker") as daemon:
        chat = Chats(daemon=daemon, model=model)
        for number in range(60):
            await chat.say(A, f"message {number}: " + "we talk about this and that " * 25)
            records = await until_kept(daemon, number + 1)
            if any("compaction in the background" in str(tree(one.spans)) for one in records):
                break
        await until(daemon, lambda all_: any(map(compacted, all_)))


def compacted(record: TraceRecord) -> bool:
    """Whether a trace tells of a summary, from its wish to its end."""
    by_id = {span.span_id: span for span in record.spans}
    chats = [
        span
        for span in record.spans
        if span.name == "chat scripted" and by_id[span.parent_id].name == "compaction"
    ]
    return bool(chats) and all_ended(record.spans)


SECRET = "sk-live-0123456789"


async def test_H9_secrets_are_taken_out_of_traces_with_content(
    tmp_path: Path, model: ModelSimulator, collector: Collector
) -> None:
    long_text = "a" * 3_990 + SECRET + "b" * 3_990  # where a text is cut
    arguments = {"text": f"{SECRET} Bearer abc.def", "password": "hunter22"}
    model.expect(Reply(tool_calls=(ToolCall(name="echo", arguments=arguments),)), when="my key")
    model.expect(Reply(text=f"It is {SECRET}."), when="my key")
    config = write_config(tmp_path, model, sent_to(collector, ", content: true"))
    text = config.read_text().replace("api_key: made-up", f"api_key: {SECRET}")
    await asyncio.to_thread(config.write_text, text)
    async with run_daemon(config, "worker", tools=[Echo()]) as daemon:
        chat = Chats(daemon=daemon, model=model)
        assert SECRET in await chat.say(A, f"my key is {SECRET} {long_text}")
        (record,) = await until_kept(daemon, 1)
        await collector.wait_spans(lambda all_: any(s.name == "turn" for s in all_))
    written = record.model_dump_json()
    sent = b"".join(collector.bodies).decode(errors="replace")
    for told in (written, sent):
        assert "my key is" in told  # the content is there
        assert "It is ***." in told
        assert SECRET[:12] not in told
        assert "abc.def" not in told
        assert "hunter22" not in told
    chat_span = next(span for span in record.spans if span.name == "chat scripted")
    messages = json.loads(str(chat_span.attributes["gen_ai.input.messages"]))
    assert messages[-1]["role"] == "user"
    assert "You are clawbot" in str(chat_span.attributes["gen_ai.system_instructions"])


async def test_H9_without_content_nothing_that_was_said_is_told(
    tmp_path: Path, model: ModelSimulator, collector: Collector
) -> None:
    model.expect(call("echo", "heron-argument"), when="heron-question")
    model.expect(Reply(text="heron-answer"), when="heron-question")
    model.expect(Refusal(status=400, message="heron-refusal"), when="heron-again")
    config = write_config(tmp_path, model, sent_to(collector))
    async with run_daemon(config, "worker", tools=[Echo()]) as daemon:
        chat = Chats(daemon=daemon, model=model)
        await chat.say(A, "heron-question")
        await chat.say(A, "heron-again")
        records = await until_kept(daemon, 2)
        await collector.wait_spans(lambda all_: sum(s.name == "turn" for s in all_) == 2)
    assert "heron" not in "".join(record.model_dump_json() for record in records)
    assert b"heron" not in b"".join(collector.bodies)


async def test_H9_turns_side_by_side_have_files_of_their_own_for_their_owner_alone(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with run_daemon(write_config(tmp_path, model, KEPT), "worker") as daemon:
        chat = Chats(daemon=daemon, model=model)
        keys = [SessionKey.of_chat("web", f"c{number}") for number in range(30)]
        await asyncio.gather(*(chat.say(key, f"I am {key}") for key in keys))
        records = await until_kept(daemon, 30)
        folder = daemon.config.state_dir / files.FOLDER
        paths = await asyncio.to_thread(lambda: [*folder.rglob("*")])
    assert {record.session for record in records} == {str(key) for key in keys}
    assert all(len(record.spans) == 4 for record in records)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}
    assert not any(path.name.startswith(".") for path in paths), "nothing half written is left"


async def test_a_collector_that_is_away_costs_spans_and_one_line_and_no_turn(
    tmp_path: Path, model: ModelSimulator, collector: Collector
) -> None:
    collector.is_failing = True
    config = write_config(tmp_path, model, sent_to(collector))
    with structlog.testing.capture_logs() as logged:
        async with run_daemon(config, "worker") as daemon:
            chat = Chats(daemon=daemon, model=model)
            assert await chat.say(A, "one") == "ok"
            await collector.wait_refused()
            assert await chat.say(A, "two") == "ok"
            await eventually(lambda: any(one["event"] == "traces_not_sent" for one in logged))
            collector.is_failing = False
            assert await chat.say(B, "three") == "ok"
            await collector.wait_spans(
                lambda all_: any(s.attributes.get("gen_ai.conversation.id") == str(B) for s in all_)
            )
            await eventually(lambda: any(one["event"] == "traces_sent_again" for one in logged))
    assert sum(line["event"] == "traces_not_sent" for line in logged) == 1


async def test_a_trace_that_cannot_be_written_costs_one_line_and_no_turn(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, KEPT)
    with structlog.testing.capture_logs() as logged:
        async with run_daemon(config, "worker") as daemon:
            in_the_way = daemon.config.state_dir / files.FOLDER
            await asyncio.to_thread(in_the_way.write_text, "no folder")
            chat = Chats(daemon=daemon, model=model)
            assert [await chat.say(A, text) for text in ("one", "two")] == ["ok", "ok"]
            await daemon.until(processes.live, bool)
    assert sum(line["event"] == "trace_not_written" for line in logged) == 1
