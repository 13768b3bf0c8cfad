"""Prices: those of the config and of the list, and unknown ones that stay unknown."""

from __future__ import annotations

import pytest

from clawbot.config_sections import BudgetsConfig, ModelPrice, ProviderConfig
from clawbot.history import Usage
from clawbot.money import dollars
from clawbot.prices import Prices

CALL = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000)
PROVIDERS = {
    "mine": ProviderConfig(base_url="http://127.0.0.1:8000/v1"),
    "proxy": ProviderConfig(base_url="https://api.deepseek.com/v1"),
}
PRICES = Prices(
    PROVIDERS,
    BudgetsConfig(
        prices={
            "mine:free": ModelPrice(input=0, output=0),
            "mine:dear": ModelPrice(input=2, output=10, cached=0.5),
        }
    ),
)


def test_a_maker_s_model_has_the_price_of_the_list_and_cached_tokens_are_cheaper() -> None:
    whole = Usage(input_tokens=CALL.input_tokens, output_tokens=CALL.output_tokens)
    without, with_cache = (PRICES.of("anthropic:claude-haiku-4-5", one) for one in (whole, CALL))
    assert without is not None
    assert with_cache is not None
    assert 0 < with_cache < without


def test_openai_is_one_maker_over_both_wire_formats() -> None:
    assert PRICES.of("openai:gpt-5", CALL) == PRICES.of("openai-chat:gpt-5", CALL) != 0


def test_a_maker_is_known_by_its_address_too() -> None:
    assert PRICES.of("proxy:deepseek-chat", CALL) == PRICES.of("deepseek:deepseek-chat", CALL)
    assert PRICES.of("proxy:deepseek-chat", CALL)


@pytest.mark.parametrize(
    "model", ["mine:gpt-5", "nobody:gpt-5", "anthropic:no-such-model", "proxy:no-such-model"]
)
def test_what_is_not_on_the_list_is_unknown_and_not_nothing(model: str) -> None:
    assert PRICES.of(model, CALL) is None


def test_counts_that_cannot_be_have_no_price() -> None:
    assert PRICES.of("openai:gpt-5", Usage(input_tokens=1, cached_tokens=5)) is None


def test_the_config_s_price_counts_first() -> None:
    assert PRICES.of("mine:free", CALL) == 0
    assert PRICES.of("mine:dear", CALL) == 2_400_000_000
    assert PRICES.of("offline", CALL) == 0


def test_an_unknown_price_makes_a_sum_unknown_and_an_empty_sum_does_not() -> None:
    known, unknown = Usage(input_tokens=1, cost_nanos=5), Usage(input_tokens=1)
    assert (known + known).cost_nanos == 10
    assert (known + unknown).cost_nanos is None
    assert Usage() + known == known == known + Usage()


@pytest.mark.parametrize(
    ("nanos", "told"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (12_345_678, "$0.0123"),
        (1_005_000_000, "$1.00"),
        (1_234_567_890_000, "$1,234.57"),
    ],
)
def test_amounts_are_shown_as_people_read_them(nanos: int, told: str) -> None:
    assert dollars(nanos) == told
