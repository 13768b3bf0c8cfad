"""The real SDKs, driven as an agent loop drives them, against the model simulator."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelContextWindowExceededError,
    ModelRequestRejectedError,
    ModelServerError,
)
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.simulators.model import (
    ModelSimulator,
    Refusal,
    Reply,
    Strictness,
    ToolCall,
    Usage,
    echo,
)
from tests.simulators.sdk import PROVIDERS, SETTINGS, TOOLS, Pair, ask, simulated, stream


@pytest.fixture(params=PROVIDERS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with simulated(request.param) as both:
        yield both


# --- answers ---


async def test_a_streamed_reply_carries_text_thinking_usage_and_finish(pair: Pair) -> None:
    simulator, model = pair
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=40)
    simulator.expect(Reply(text=("hel", "lo"), thinking=("h", "m"), usage=usage))
    response = await stream(model, ask("hi"))
    assert response.text == "hello"
    assert [part.content for part in response.parts if isinstance(part, ThinkingPart)] == ["hm"]
    assert response.finish_reason == "stop"
    assert response.usage.input_tokens == 100
    assert response.usage.cache_read_tokens == 40
    assert response.usage.output_tokens == 7
    simulator.assert_done()


async def test_a_reply_without_streaming_says_the_same(pair: Pair) -> None:
    simulator, model = pair
    call = ToolCall(name="read_file", arguments={"path": "a"}, id="own-id")
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=40)
    simulator.expect(Reply(text="hello", thinking="hm", tool_calls=(call,), usage=usage))
    response = await model_request(
        model, ask("hi"), model_settings=SETTINGS, model_request_parameters=TOOLS
    )
    assert response.text == "hello"
    assert response.thinking == "hm"
    assert [(each.tool_call_id, each.args_as_dict()) for each in response.tool_calls] == [
        ("own-id", {"path": "a"})
    ]
    assert (response.usage.input_tokens, response.usage.cache_read_tokens) == (100, 40)
    assert not simulator.requests[0].streamed
    simulator.assert_done()


async def test_parallel_tool_calls_and_their_results_pass_the_rules(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(
        Reply(
            text="let me look",
            thinking="both files",
            tool_calls=(
                ToolCall(name="read_file", arguments=('{"path"', ': "a"}')),
                ToolCall(name="read_file", arguments={"path": "b"}),
            ),
        )
    )
    simulator.expect(Reply(text="done"))
    first = await stream(model, ask("read a and b"))
    assert [call.args_as_dict() for call in first.tool_calls] == [{"path": "a"}, {"path": "b"}]
    results = ModelRequest(
        parts=[
            ToolReturnPart(tool_name="read_file", content=name, tool_call_id=call.tool_call_id)
            for name, call in zip("AB", first.tool_calls, strict=True)
        ]
    )
    second = await stream(model, [*ask("read a and b"), first, results])
    assert second.text == "done"
    seen = simulator.requests[-1]
    assert seen.system == "be brief"
    assert seen.last_user_text == "read a and b"
    assert seen.tools == ("read_file",)
    made = [call.id for message in seen.messages for call in message.tool_calls]
    answered = [(each.id, each.text) for message in seen.messages for each in message.tool_results]
    assert answered == [(made[0], "A"), (made[1], "B")]
    simulator.assert_done()


async def test_odd_ids_and_broken_arguments_arrive_as_scripted(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(
        Reply(tool_calls=(ToolCall(name="nope", arguments='{"pa', id="odd id"),)),
    )
    response = await stream(model, ask("go"))
    (call,) = [part for part in response.parts if isinstance(part, ToolCallPart)]
    assert (call.tool_name, call.args, call.tool_call_id) == ("nope", '{"pa', "odd id")


async def test_an_empty_answer_ends_with_stop(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply())
    response = await stream(model, ask("hi"))
    assert list(response.parts) == []
    assert response.finish_reason == "stop"


async def test_length_is_reported_as_length(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply(text="half a sent", finish="length"))
    assert (await stream(model, ask("hi"))).finish_reason == "length"


async def test_echo_answers_with_the_newest_user_text() -> None:
    async with simulated("openai-chat", lambda: ModelSimulator(echo)) as (simulator, model):
        assert (await stream(model, ask("are you there"))).text == "echo: are you there"
        simulator.assert_done()


async def test_a_scripted_step_comes_before_the_responder() -> None:
    async with simulated("anthropic", lambda: ModelSimulator(echo)) as (simulator, model):
        simulator.expect(Reply(text="scripted"), when="special")
        assert (await stream(model, ask("plain"))).text == "echo: plain"
        assert (await stream(model, ask("special"))).text == "scripted"


async def test_sessions_with_markers_follow_their_own_scripts(pair: Pair) -> None:
    simulator, model = pair
    for session in "ab":
        for number in range(3):
            simulator.expect(Reply(text=f"{session}{number}"), marker=f"session {session}")

    async def talk(session: str) -> list[str | None]:
        return [(await stream(model, ask(f"session {session}"))).text for _ in range(3)]

    told = await asyncio.gather(talk("a"), talk("b"))
    assert list(told) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    simulator.assert_done()


# --- strictness ---


async def test_an_illegal_request_is_refused_in_the_providers_words_and_recorded(
    pair: Pair,
) -> None:
    simulator, model = pair
    stray = ModelRequest(
        parts=[ToolReturnPart(tool_name="read_file", content="x", tool_call_id="unknown")]
    )
    with pytest.raises(ModelRequestRejectedError) as caught:
        await stream(model, [*ask("hi"), ModelResponse(parts=[TextPart("yes")]), stray])
    assert "unknown_result" in {each.violation.rule for each in simulator.violations}
    assert "tool" in str(caught.value.body)
    with pytest.raises(AssertionError, match="unknown_result"):
        simulator.assert_done()


async def test_a_request_over_the_context_window_is_an_overflow_and_no_violation(
    pair: Pair,
) -> None:
    simulator, model = pair
    simulator.strictness = Strictness(context_tokens=500)
    with pytest.raises(ModelContextWindowExceededError):
        await stream(model, ask("word " * 1000))
    assert simulator.requests[0].outcome == "overflow"
    simulator.assert_done()


@pytest.mark.parametrize(
    ("provider", "rule"), [("deepseek", "reasoning_content"), ("zai", "null_content")]
)
async def test_a_dialect_enforces_its_own_rule(provider: str, rule: str) -> None:
    async with simulated(provider) as (simulator, model):
        call = ToolCallPart(tool_name="read_file", args={"path": "a"}, tool_call_id="c1")
        result = ToolReturnPart(tool_name="read_file", content="x", tool_call_id="c1")
        history = [*ask("hi"), ModelResponse(parts=[call]), ModelRequest(parts=[result])]
        with pytest.raises(ModelRequestRejectedError):
            await stream(model, history)
        assert {each.violation.rule for each in simulator.violations} == {rule}


async def test_deepseek_wants_no_reasoning_back_from_a_model_that_does_not_think() -> None:
    async with simulated("deepseek") as (simulator, _):
        client = AsyncOpenAI(base_url=simulator.base_url("deepseek"), api_key="key", max_retries=0)
        simulator.expect(Reply(text="done"), when="look")
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        async with client:
            await client.post(
                "/chat/completions",
                cast_to=object,
                body={
                    "model": "deepseek-chat",
                    "messages": [
                        {"role": "user", "content": "look"},
                        {"role": "assistant", "content": "", "tool_calls": [call]},
                        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
                    ],
                    "tools": [{"type": "function", "function": {"name": "look"}}],
                },
            )
        simulator.assert_done()


async def test_a_thinking_signature_is_void_once_the_history_before_it_changed() -> None:
    async with simulated("anthropic") as (simulator, model):
        simulator.expect(Reply(text="yes", thinking="hm"))
        answer = await stream(model, ask("first"))
        more = ModelRequest(parts=[UserPromptPart("more")])
        simulator.expect(Reply(text="still legal"))
        assert (await stream(model, [*ask("first"), answer, more])).text == "still legal"
        with pytest.raises(ModelRequestRejectedError):
            await stream(model, [*ask("a summary"), answer, more])
        assert [each.violation.rule for each in simulator.violations] == ["signature"]


async def test_a_key_that_is_not_accepted_is_refused_and_never_recorded(pair: Pair) -> None:
    simulator, model = pair
    simulator.keys = {"another"}
    with pytest.raises(ModelAuthenticationError):
        await stream(model, ask("hi"))
    sent = simulator.requests[0].headers
    assert "key" not in sent.values()
    assert "Bearer key" not in sent.values()
    assert "<redacted>" in sent.values()


async def test_an_unexpected_call_fails_loudly(pair: Pair) -> None:
    simulator, model = pair
    with pytest.raises(ModelServerError, match="no step expects call 1"):
        await stream(model, ask("surprise"))
    with pytest.raises(AssertionError, match="unexpected call 1: 'surprise'"):
        simulator.assert_done()


async def test_a_step_that_was_never_used_fails_the_test() -> None:
    simulator = ModelSimulator()
    simulator.expect(Reply(text="nobody asked"))
    with pytest.raises(AssertionError, match="unused step"):
        simulator.assert_done()


async def test_a_crash_of_the_tests_own_responder_is_reported() -> None:
    def broken(_: object) -> Reply:
        raise LookupError("the test is wrong")

    async with simulated("openai-chat", lambda: ModelSimulator(broken)) as (simulator, model):
        with pytest.raises(ModelServerError):
            await stream(model, ask("hi"))
        with pytest.raises(AssertionError, match="the test is wrong"):
            simulator.assert_done()


async def test_the_next_call_can_be_failed_ahead_of_the_script(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply(text="later"))
    simulator.fail_next(Refusal(status=503))
    with pytest.raises(ModelAPIError):
        await stream(model, ask("hi"))
    assert (await stream(model, ask("hi"))).text == "later"
    simulator.assert_done()


async def test_waiting_for_calls_that_do_not_come_says_what_did() -> None:
    simulator = ModelSimulator()
    with pytest.raises(TimeoutError, match="no 2 model calls within"):
        await simulator.wait_calls(2, timeout_s=0.01)
