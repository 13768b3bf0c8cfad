"""How much a model takes in, and how its tokens compare with those that we count: data.

Windows: the config decides (`providers.NAME.context_tokens`); then the table below, by the
beginning of the model's name; then what `genai-prices` knows, which is updated with each release of
it; then a careful default. Nothing here asks a provider.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from genai_prices.data_snapshot import get_snapshot

N = TypeVar("N", int, float)

UNKNOWN_WINDOW_TOKENS = 32_768
"""For models that nobody knows: what servers of one's own are often started with."""

UNKNOWN_FACTOR = 1.1
LEAST_FACTOR, GREATEST_FACTOR = 0.5, 2.5

# Where the window is not all for input, or not what is served. Input limits of GPT-5: 400,000 less
# 128,000 of output, https://platform.openai.com/docs/models/gpt-5
_WINDOWS = (
    ("gpt-5", 272_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("glm-4.5", 128_000),  # https://docs.z.ai/guides/llm/glm-4.5
    ("glm-4", 200_000),  # 4.6 and later, https://docs.z.ai/guides/llm/glm-4.6
    ("glm-5", 200_000),
    ("qwen3", 131_072),  # https://qwenlm.github.io/blog/qwen3
    ("qwen", 32_768),
    ("llama3", 131_072),
    ("llama-3", 131_072),
)

# Reported by counted tokens. The vocabulary that counts is that of OpenAI's models since GPT-4o.
# Claude was measured at 1.18 (3.5) to 1.53 (Opus 4.7). DeepSeek and Qwen need fewer for Chinese
# (about 0.7 a character) and as many for the rest:
# https://api-docs.deepseek.com/quick_start/token_usage
_FACTORS = (
    ("claude", 1.6),
    ("gpt-4o", 1.02),
    ("gpt-4.1", 1.02),
    ("gpt-5", 1.02),
    ("chatgpt-4o", 1.02),
    ("o1", 1.02),
    ("o3", 1.02),
    ("o4", 1.02),
    ("deepseek", 1.05),
    ("qwen", 1.1),
    ("glm", 1.1),
    ("kimi", 1.1),
    ("gemini", 1.2),
    ("mistral", 1.3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """A model's window in its own tokens, and how many of them one counted token comes to."""

    window_tokens: int
    factor: float


@functools.lru_cache(maxsize=256)
def size_of(model: str, configured_tokens: int | None) -> ModelSize:
    """The size of `PROVIDER:NAME`. The first call loads the library's data: not on the loop."""
    provider, _, name = model.partition(":")
    name = name.lower().rpartition("/")[2]  # some servers write the maker in front
    window = configured_tokens or _by_prefix(_WINDOWS, name) or _known_window(provider, name)
    return ModelSize(
        window_tokens=window or UNKNOWN_WINDOW_TOKENS,
        factor=_by_prefix(_FACTORS, name) or UNKNOWN_FACTOR,
    )


def _by_prefix(table: Sequence[tuple[str, N]], name: str) -> N | None:
    return next((value for prefix, value in table if name.startswith(prefix)), None)


def _known_window(provider: str, name: str) -> int | None:
    """What the price list says; it has each maker's models, whoever serves them."""
    for maker in (provider, None):
        try:
            _, found = get_snapshot().find_provider_model(name, None, maker, None)
        except LookupError:
            continue
        if found.context_window:
            return found.context_window
    return None
