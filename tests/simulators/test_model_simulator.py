"""The real SDKs, driven as an agent loop drives them, against the model simulator."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from httpx2 import AsyncClient
from openai import AsyncOpenAI, DefaultAioHttpClient
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from tests.simulators.model import (
    BreakOff,
    ModelSimulator,
    Refusal,
    Reply,
    Strictness,
    ToolCall,
    Usage,
    echo,
    invalid_key,
    overflow,
    rate_limited,
)

PROVIDERS = ["openai-chat", "openai", "anthropic"]
TOOLS = ModelRequestParameters(
    function_tools=[
        ToolDefinition(
            name="read_file",
            parameters_json_schema={
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        )
    ]
)
SETTINGS: ModelSettings = {"max_tokens": 500, "timeout": 10.0}


def connect(simulator: ModelSimulator, provider: str, http: AsyncClient) -> Model[Any]:
    """The model class of a provider, on the shared HTTP client, without retries of its own."""
    url = simulator.base_url(provider)
    if provider == "anthropic":
        anthropic = AsyncAnthropic(base_url=url, api_key="key", max_retries=0, http_client=http)
        return AnthropicModel("claude-test", provider=AnthropicProvider(anthropic_client=anthropic))
    openai = AsyncOpenAI(base_url=url, api_key="key", max_retries=0, http_client=http)
    if provider == "openai":
        return OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=openai))
    return OpenAIChatModel("gpt-test", provider=OpenAIProvider(openai_client=openai))


def ask(text: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[SystemPromptPart("be brief"), UserPromptPart(text)])]


async def stream(model: Model[Any], messages: list[ModelMessage], **settings: Any) -> ModelResponse:
    """One streamed request, read to its end."""
    merged: ModelSettings = {**SETTINGS, **settings}  # type: ignore[typeddict-item]
    async with model_request_stream(
        model, messages, model_settings=merged, model_request_parameters=TOOLS
    ) as response:
        async for _ in response:
            pass
        return response.get()


@asynccontextmanager
async def simulated(
    provider: str, make: Callable[[], ModelSimulator] = ModelSimulator
) -> AsyncIterator[tuple[ModelSimulator, Model[Any]]]:
    async with make() as simulator, DefaultAioHttpClient() as http:
        yield simulator, connect(simulator, provider, http)


@pytest.fixture(params=PROVIDERS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[ModelSimulator, Model[Any]]]:
    async with simulated(request.param) as both:
        yield both


Pair = tuple[ModelSimulator, Model[Any]]


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


# --- faults ---


@pytest.mark.parametrize(
    ("refusal", "error", "status"),
    [
        (overflow(), ModelContextWindowExceededError, 400),
        (invalid_key(), ModelAuthenticationError, 401),
        (rate_limited(7), ModelRateLimitError, 429),
        (Refusal(status=500), ModelServerError, 500),
        (Refusal(status=502, body="<html>bad gateway</html>"), ModelServerError, 502),
        (Refusal(status=529), ModelOverloadedError, 529),
        (Refusal(status=400, body={"error": {"message": "odd"}}), ModelRequestRejectedError, 400),
    ],
)
async def test_a_refusal_surfaces_as_its_category(
    pair: Pair, refusal: Refusal, error: type[ModelAPIError], status: int
) -> None:
    simulator, model = pair
    simulator.expect(refusal)
    with pytest.raises(error) as caught:
        await stream(model, ask("hi"))
    assert isinstance(caught.value, ModelHTTPError)
    assert caught.value.status_code == status
    assert caught.value.retry_after == refusal.retry_after
    assert simulator.requests[0].outcome == "refused"
    assert simulator.violations == []


@pytest.mark.parametrize("after", [None, 0, 1])
async def test_a_hang_ends_by_the_clients_own_timeout(pair: Pair, after: int | None) -> None:
    simulator, model = pair
    simulator.expect(Reply(text=("half", "way"), break_off=BreakOff(how="hang", after=after)))
    with pytest.raises(ModelTimeoutError):
        await stream(model, ask("hi"), timeout=0.2)
    await simulator.wait_until(
        lambda: simulator.requests[0].outcome == "disconnected", "disconnection"
    )


@pytest.mark.parametrize("after", [None, 0, 1])
async def test_a_reset_is_a_connection_error(pair: Pair, after: int | None) -> None:
    simulator, model = pair
    simulator.expect(Reply(text=("half", "way"), break_off=BreakOff(how="reset", after=after)))
    with pytest.raises(ModelConnectionError):
        await stream(model, ask("hi"))
    assert simulator.requests[0].outcome == "broken_off"


async def test_an_error_inside_the_stream_has_its_category(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply(text=("half", "way"), break_off=BreakOff(how="error", after=1)))
    with pytest.raises(ModelOverloadedError) as caught:
        await stream(model, ask("hi"))
    assert caught.value.in_stream


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text=("half", "way"), break_off=BreakOff(how="end", after=1)),
        Reply(text="half", finish="missing"),
    ],
    ids=["ends early", "finish missing"],
)
async def test_a_stream_without_a_finish_reason_carries_none_from_the_provider(
    pair: Pair, reply: Reply
) -> None:
    simulator, model = pair
    simulator.expect(reply)
    response = await stream(model, ask("hi"))
    assert response.text == "half"
    # The library may put "stop" into `finish_reason`; what the provider said stands in the details.
    assert "finish_reason" not in (response.provider_details or {})


async def test_a_cancelled_call_is_seen_as_disconnected(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply(text=("one", "two")))
    gate = simulator.hold(after=1)
    call = asyncio.create_task(stream(model, ask("hi")))
    await gate.reached
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await simulator.wait_until(
        lambda: simulator.requests[0].outcome == "disconnected", "disconnection"
    )


# --- gates ---


async def test_a_gate_stops_a_call_where_it_stands_and_lets_it_go_on(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply(text=("one ", "two")))
    gate = simulator.hold("hi", after=1)
    heard = asyncio.Event()

    async def listen() -> str | None:
        async with model_request_stream(model, ask("hi"), model_settings=SETTINGS) as response:
            async for _ in response:
                if any(isinstance(part, TextPart) for part in response.get().parts):
                    heard.set()
            return response.get().text

    call = asyncio.create_task(listen())
    await gate.reached
    async with asyncio.timeout(10):
        await heard.wait()
    assert simulator.requests[0].outcome == "open"
    gate.release()
    assert await call == "one two"
    simulator.assert_done()


async def test_a_gate_before_the_headers_holds_only_the_call_it_matches(pair: Pair) -> None:
    simulator, model = pair
    simulator.expect(Reply(text="a"), when="slow")
    simulator.expect(Reply(text="b"), when="fast")
    gate = simulator.hold("slow")
    slow = asyncio.create_task(stream(model, ask("slow")))
    await gate.reached
    assert (await stream(model, ask("fast"))).text == "b"
    assert not slow.done()
    gate.release()
    assert (await slow).text == "a"


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
