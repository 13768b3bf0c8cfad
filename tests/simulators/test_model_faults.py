"""What the real SDKs make of every way a simulated provider can fail or wait."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic_ai.direct import model_request_stream
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
    TextPart,
)

from tests.simulators.model import (
    BreakOff,
    Refusal,
    Reply,
    invalid_key,
    overflow,
    rate_limited,
)
from tests.simulators.sdk import PROVIDERS, SETTINGS, Pair, ask, simulated, stream


@pytest.fixture(params=PROVIDERS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with simulated(request.param) as both:
        yield both


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
