"""Scenario H11: what is tried again, what never is, and who answers instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import stamina

from clawbot.agent.calling import MODEL_TRIES, Caller, ShownPartly, Timing
from clawbot.agent.limiter import Limiter
from clawbot.agent.outages import LONG_S, SHORT_S, Outages
from clawbot.config_sections import ProviderConfig
from clawbot.errors import ModelError
from clawbot.history import Entry, EntryKind, ModelReply, ModelRequest, Usage

HELLO = ModelRequest(system="", entries=(Entry(kind=EntryKind.USER, text="hello"),))
PASSING = ("retryable", "rate_limited")
LASTING = ("auth", "quota", "overflow", "no_room", "invalid", "refused", "budget_day")


@dataclass(slots=True)
class Time:
    """A clock on which sleeping takes no time."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass(slots=True)
class Scripted:
    """A model that does as it is told, call by call: text, an error, or never anything."""

    script: list[str | ModelError | None]
    name: str = "maker:first"
    shows_before: str = ""
    calls: int = 0

    async def reply(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
        self.calls += 1
        told = self.script.pop(0)
        if self.shows_before:
            on_text(self.shows_before)
        if told is None:
            await asyncio.Event().wait()
        if isinstance(told, ModelError):
            raise told
        on_text(str(told))
        return ModelReply(text=str(told), usage=Usage(input_tokens=10, output_tokens=2))


@pytest.fixture(autouse=True)
def waits_take_no_time() -> Iterator[None]:
    stamina.set_testing(True, attempts=MODEL_TRIES, cap=True)
    yield
    stamina.set_testing(False)


def caller(
    clock: Time, *, first_token_timeout_s: float = 20, provider: ProviderConfig | None = None
) -> Caller:
    return Caller(
        clock=clock,
        first_token_timeout_s=first_token_timeout_s,
        price_of=lambda model, _usage: 7 if model == "maker:first" else None,
        limiter=Limiter(clock, {"maker": provider or ProviderConfig()}, 30),
        outages=Outages(clock),
    )


def failing(kind: str, **more: float) -> ModelError:
    return ModelError(kind, kind=kind, **more)  # type: ignore[arg-type]


async def ask(
    made: Caller, models: Sequence[Scripted], shown: list[str] | None = None
) -> tuple[str, Timing]:
    timing = Timing()
    shows = [] if shown is None else shown
    reply = await made.reply(models, HELLO, shows.append, timing)
    assert reply.usage is not None
    return reply.text, timing


@pytest.mark.parametrize("kind", PASSING)
async def test_what_may_pass_is_tried_again_and_each_failure_is_counted(kind: str) -> None:
    model = Scripted([failing(kind), failing(kind), "here"])
    text, timing = await ask(caller(Time()), [model])
    assert (text, model.calls) == ("here", 3)
    assert [one.has_failed for one in timing.lost] == [True, True]
    assert (timing.usage.cost_nanos, timing.usage.model) == (7, "maker:first")


@pytest.mark.parametrize("kind", PASSING)
async def test_it_is_not_tried_for_ever(kind: str) -> None:
    model = Scripted([failing(kind)] * 10)
    with pytest.raises(ModelError):
        await ask(caller(Time()), [model])
    assert model.calls == MODEL_TRIES


@pytest.mark.parametrize("kind", LASTING)
async def test_what_will_not_pass_is_asked_once(kind: str) -> None:
    model = Scripted([failing(kind), "never"])
    with pytest.raises(ModelError) as raised:
        await ask(caller(Time()), [model])
    assert (raised.value.kind, model.calls) == (kind, 1)


async def test_a_provider_that_wants_a_long_pause_is_not_asked_again() -> None:
    model = Scripted([failing("rate_limited", retry_after_s=31), "never"])
    with pytest.raises(ModelError):
        await ask(caller(Time()), [model])
    assert model.calls == 1


async def test_nothing_is_asked_again_once_a_part_of_the_answer_was_shown() -> None:
    first = Scripted([failing("retryable"), "never"], shows_before="half")
    second = Scripted(["never"], name="maker:second")
    with pytest.raises(ShownPartly):
        await ask(caller(Time()), [first, second])
    assert (first.calls, second.calls) == (1, 0)


async def test_thinking_that_breaks_off_was_not_shown_and_is_asked_for_again() -> None:
    made = caller(Time())

    class Thinking(Scripted):
        async def reply(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
            on_text("")
            return await Scripted.reply(self, request, on_text)

    model = Thinking([failing("retryable"), "here"])
    text, timing = await ask(made, [model])
    assert text == "here"
    # It had begun: nobody knows what it cost.
    assert [one.usage.cost_nanos for one in timing.lost] == [None]


async def test_a_model_that_does_not_begin_in_time_is_left_for_the_next() -> None:
    first = Scripted([None] * MODEL_TRIES)
    second = Scripted(["instead"], name="maker:second")
    text, timing = await ask(caller(Time(), first_token_timeout_s=0.01), [first, second])
    assert (text, first.calls, timing.model) == ("instead", MODEL_TRIES, "maker:second")
    assert timing.usage.cost_nanos is None


@pytest.mark.parametrize("kind", ["retryable", "rate_limited", "auth", "quota"])
async def test_the_next_model_answers_while_one_fails_and_the_first_is_tried_again_later(
    kind: str,
) -> None:
    clock = Time()
    made = caller(clock)
    first = Scripted([failing(kind)] * (MODEL_TRIES if kind in PASSING else 1) + ["back"])
    second = Scripted(["instead", "again"], name="maker:second")
    assert (await ask(made, [first, second]))[0] == "instead"
    calls = first.calls
    assert (await ask(made, [first, second]))[0] == "again"
    assert first.calls == calls
    assert list(made.outages.facts()) == ["model maker:first"]
    assert kind in made.outages.facts()["model maker:first"]
    clock.now += LONG_S if kind in {"auth", "quota"} else SHORT_S
    assert (await ask(made, [first, second]))[0] == "back"
    assert made.outages.facts() == {}


@pytest.mark.parametrize("kind", ["overflow", "invalid", "refused"])
async def test_a_fault_of_the_request_is_no_other_model_s_to_answer(kind: str) -> None:
    second = Scripted(["never"], name="maker:second")
    with pytest.raises(ModelError):
        await ask(caller(Time()), [Scripted([failing(kind)]), second])
    assert second.calls == 0


async def test_when_all_fail_the_last_error_is_told_and_all_are_asked_the_next_time() -> None:
    made = caller(Time())
    models = [
        Scripted([failing("auth"), "well"]),
        Scripted([failing("quota")], name="maker:second"),
    ]
    with pytest.raises(ModelError) as raised:
        await ask(made, models)
    assert raised.value.kind == "quota"
    assert (await ask(made, models))[0] == "well"


async def test_the_text_is_shown_whole_as_it_grows() -> None:
    shown: list[str] = []
    await ask(caller(Time()), [Scripted([" world"], shows_before="hello")], shown)
    assert shown == ["hello", "hello world"]


async def test_one_session_s_pause_makes_the_others_wait() -> None:
    clock = Time()
    made = caller(clock)
    hurt = Scripted([failing("rate_limited", retry_after_s=40)])
    with pytest.raises(ModelError):
        await ask(made, [hurt])
    clock.now += 25
    assert (await ask(made, [Scripted(["after the pause"])]))[0] == "after the pause"
    assert clock.slept == [15.0]
    other = Scripted(["at once"], name="another:model")
    await ask(made, [other])
    assert clock.slept == [15.0]


async def test_who_would_wait_too_long_is_refused_without_a_call() -> None:
    clock = Time()
    made = caller(clock)
    made.limiter.pause("maker", 31)
    model = Scripted(["never"])
    with pytest.raises(ModelError) as raised:
        await ask(made, [model])
    assert (raised.value.kind, model.calls) == ("rate_limited", 0)


async def test_requests_over_the_limit_wait_until_a_minute_has_gone() -> None:
    clock = Time()
    limiter = Limiter(clock, {"maker": ProviderConfig(requests_per_minute=2)}, 60)
    began = []
    for _ in range(5):
        await limiter.admit("maker", 0)
        began.append(clock.now - 1000)
    assert began == [0, 0, 60, 60, 120]


@pytest.mark.parametrize(("requests", "workers"), [(12, 2), (5, 2), (3, 4), (1, 3), (60, 7)])
async def test_several_workers_together_make_no_more_requests_than_are_configured(
    requests: int, workers: int
) -> None:
    limits = {"maker": ProviderConfig(requests_per_minute=requests)}
    admitted: list[float] = []
    for _ in range(workers):
        clock = Time()
        limiter = Limiter(clock, limits, 1000)
        limiter.workers = lambda: workers
        while clock.now < 1600:
            admitted.append((await limiter.admit("maker", 0)).at)
    # A worker whose part is less than one of a minute has one in a longer time.
    span_s = 60 * max(1, workers / requests)
    most = max(requests, workers)
    for start in admitted:
        assert sum(start <= at < start + span_s - 0.001 for at in admitted) <= most
    # Nor is it much less: what is left over of an equal part is lost.
    minutes = (max(admitted) - min(admitted)) / 60
    assert len(admitted) / minutes > requests * 0.6


async def test_several_workers_share_a_provider_s_tokens() -> None:
    clock = Time()
    limiter = Limiter(clock, {"maker": ProviderConfig(tokens_per_minute=1000)}, 60)
    limiter.workers = lambda: 2
    await limiter.admit("maker", 400)
    assert clock.slept == []
    await limiter.admit("maker", 200)
    assert clock.slept == [60.0]


async def test_tokens_over_the_limit_wait_for_room_and_real_counts_replace_estimates() -> None:
    clock = Time()
    limiter = Limiter(clock, {"maker": ProviderConfig(tokens_per_minute=1000)}, 60)
    first = await limiter.admit("maker", 100)
    first.tokens = 900
    clock.now += 10
    await limiter.admit("maker", 100)
    assert clock.slept == []
    await limiter.admit("maker", 200)
    assert clock.slept == [50.0]
    clock.now += 60
    await limiter.admit("maker", 5000)  # larger than the limit: alone
    assert clock.slept == [50.0]


async def test_calls_go_ahead_in_their_order_and_a_cancelled_one_holds_up_no_other() -> None:
    clock = Time()
    limiter = Limiter(clock, {"maker": ProviderConfig(requests_per_minute=1)}, 1000)
    order: list[int] = []

    async def call(number: int) -> None:
        await limiter.admit("maker", 0)
        order.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 2, 3]
