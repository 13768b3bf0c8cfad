"""The addresses of the simulated providers: paths, wire formats and dialects."""

from collections.abc import Mapping
from dataclasses import dataclass

from .anthropic import AnthropicWire
from .conversation import Api, Dialect
from .openai_chat import ChatWire, ZaiWire
from .openai_responses import ResponsesWire
from .wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address of the simulator: the SDK's base URL, the path it adds, and what is spoken."""

    base: str
    path: str
    api: Api
    dialect: Dialect
    wire: Wire

    def overflow_words(self, size: int, limit: int) -> str:
        """The provider's words for a prompt of `size` tokens in a window of `limit`."""
        if self.api == "anthropic":
            return f"prompt is too long: {size} tokens > {limit} maximum"
        if self.api == "openai-responses":
            return ""
        return (
            f"This model's maximum context length is {limit} tokens. However, your messages "
            f"resulted in {size} tokens. Please reduce the length of the messages."
        )


ENDPOINTS: Mapping[str, Endpoint] = {
    "openai-chat": Endpoint(
        base="/v1", path="/chat/completions", api="openai-chat", dialect="openai", wire=ChatWire()
    ),
    "openai": Endpoint(
        base="/v1",
        path="/responses",
        api="openai-responses",
        dialect="openai",
        wire=ResponsesWire(),
    ),
    "anthropic": Endpoint(
        base="", path="/v1/messages", api="anthropic", dialect="anthropic", wire=AnthropicWire()
    ),
    "zai": Endpoint(
        base="/zai", path="/chat/completions", api="openai-chat", dialect="zai", wire=ZaiWire()
    ),
    "deepseek": Endpoint(
        base="/deepseek",
        path="/chat/completions",
        api="openai-chat",
        dialect="deepseek",
        wire=ChatWire(),
    ),
}
