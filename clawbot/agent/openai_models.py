"""Models behind OpenAI's two APIs and their imitations. Importing it imports the SDK: 0.4 s."""

from __future__ import annotations

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.zai import ZaiModel
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider
from pydantic_ai.providers.deepseek import DeepSeekProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.zai import ZaiProvider

from clawbot.agent.endpoint import Endpoint
from clawbot.agent.openai_requests import PlainCompletions
from clawbot.agent.repeated_tools import RepeatedTools


class _Chat(RepeatedTools, OpenAIChatModel):
    pass


class _Responses(RepeatedTools, OpenAIResponsesModel):
    pass


class _Zai(RepeatedTools, ZaiModel):
    pass


def build_model(endpoint: Endpoint, model_name: str) -> OpenAIChatModel | OpenAIResponsesModel:
    """The library's model for an endpoint."""
    client = AsyncOpenAI(
        api_key=endpoint.api_key.get_secret_value(),
        base_url=endpoint.base_url,
        http_client=endpoint.http_client,
        max_retries=0,
    )
    # The SDK reads both from the environment; no other provider may learn them.
    client.organization = client.project = None
    # The SDK imports both on first use; here it does not hold up the event loop.
    _ = client.chat, client.responses
    client.chat.__dict__["completions"] = PlainCompletions(client)
    if endpoint.dialect.api == "openai":
        return _Responses(model_name, provider=OpenAIProvider(openai_client=client))
    if endpoint.dialect.name == "zai":
        zai = ZaiProvider(openai_client=client)
        return _Zai(model_name, provider=zai, profile=_ZAI_PROFILE)
    if endpoint.dialect.name == "deepseek":
        deepseek = DeepSeekProvider(openai_client=client)
        return _Chat(model_name, provider=deepseek, profile=_WHOLE_STREAMS)
    provider: Provider[AsyncOpenAI] = OpenAIProvider(openai_client=client)
    if endpoint.is_own:
        provider = OpenAICompatibleProvider(endpoint.provider, openai_client=client)
        return _Chat(model_name, provider=provider, profile=_own_server_profile)
    return _Chat(model_name, provider=provider, profile=_WHOLE_STREAMS)


# Without it the library takes a stream that breaks off for a reply that is complete.
_WHOLE_STREAMS = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
# Its API documents `max_tokens` alone: https://docs.z.ai/api-reference/llm/chat-completion
_ZAI_PROFILE = OpenAIModelProfile(
    openai_chat_streaming_requires_finish_reason=True,
    openai_chat_supports_max_completion_tokens=False,
)


def _own_server_profile(profile: ModelProfile) -> ModelProfile:
    """Servers of one's own know `max_tokens`; its newer name is for reasoning models alone."""
    reasons = bool(profile.get("openai_supports_reasoning", False))
    return merge_profile(
        profile,
        _WHOLE_STREAMS,
        OpenAIModelProfile(openai_chat_supports_max_completion_tokens=reasons),
    )
