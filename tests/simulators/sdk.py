"""The real SDKs connected to the model simulator, the way an agent loop uses them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from anthropic import AsyncAnthropic
from httpx2 import AsyncClient
from openai import AsyncOpenAI, DefaultAioHttpClient
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
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
    ModelSimulator,
)

Pair = tuple[ModelSimulator, Model[Any]]
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
) -> AsyncIterator[Pair]:
    async with make() as simulator, DefaultAioHttpClient() as http:
        yield simulator, connect(simulator, provider, http)
