"""What model calls cost, by the price list that `genai-prices` ships: never a download.

A price is known where the config gives it, and of a maker's own API, by the provider's name or its
address. Of another server, and of a model that is not on the list, it is unknown, and unknown is
never nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

import structlog
from genai_prices import calc_price
from genai_prices import types as price_types

from clawbot.config_sections import OFFLINE_MODEL, BudgetsConfig, ModelPrice, ProviderConfig
from clawbot.history import Usage
from clawbot.money import NANOS

log = structlog.get_logger(__name__)

_MAKERS = {
    "openai": "openai",
    "openai-chat": "openai",
    "anthropic": "anthropic",
    "zai": "zai",
    "deepseek": "deepseek",
}
"""The providers whose address is known, by their names in the price list."""


class Prices:
    """The prices of the models that a config can name. The first question loads the list, which
    takes a moment: not on the event loop.
    """

    def __init__(self, providers: Mapping[str, ProviderConfig], budgets: BudgetsConfig) -> None:
        self._providers = providers
        self._given = budgets.prices

    def of(self, model: str, usage: Usage) -> int | None:
        """The price of one call of `PROVIDER:NAME` in billionths of a US dollar; None = unknown."""
        if model == OFFLINE_MODEL:
            return 0
        if model in self._given:
            return _nanos(_given_price(self._given[model], usage))
        provider, _, name = model.partition(":")
        given = self._providers.get(provider)
        url = given.base_url if given is not None else None
        asked = price_types.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_written_tokens,
            output_tokens=usage.output_tokens,
        )
        try:
            if url is not None:
                found = calc_price(asked, name, provider_api_url=url)
            elif provider in _MAKERS:
                found = calc_price(asked, name, provider_id=_MAKERS[provider])
            else:
                return None
        except LookupError:
            return None
        except ValueError as error:  # counts that cannot be: more cached than there is
            log.warning("price_not_found", model=model, error=str(error))
            return None
        return _nanos(found.total_price)


def _given_price(price: ModelPrice, usage: Usage) -> Decimal:
    cached = price.input if price.cached is None else price.cached
    parts = (
        (usage.input_tokens - usage.cached_tokens, price.input),
        (usage.cached_tokens, cached),
        (usage.output_tokens, price.output),
    )
    return sum((Decimal(str(each)) * count for count, each in parts), Decimal(0)) / 1_000_000


def _nanos(amount: Decimal) -> int:
    return int((amount * NANOS).to_integral_value(ROUND_HALF_UP))
