"""Models behind Anthropic's Messages API. Importing this imports its SDK: half a second, 30 MB."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from clawbot.agent.endpoint import Endpoint
from clawbot.agent.repeated_tools import RepeatedTools


class _Messages(RepeatedTools, AnthropicModel):
    pass


def build_model(endpoint: Endpoint, model_name: str) -> AnthropicModel:
    """The library's model for an endpoint."""
    client = AsyncAnthropic(
        api_key=endpoint.api_key.get_secret_value(),
        base_url=endpoint.base_url,
        http_client=endpoint.http_client,
        max_retries=0,
    )
    _ = client.beta.messages  # the SDK imports it on first use
    return _Messages(model_name, provider=AnthropicProvider(anthropic_client=client))
