"""The models: one object for each `PROVIDER:NAME` of the config, over HTTP clients that are shared.

A model makes single calls and retries nothing. Time-outs for the first token and the whole turn
are the loop's: it cancels the call, which closes the connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx2
from httpx_aiohttp.httpx2 import Httpx2AiohttpClient
from pydantic import SecretStr
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model as LibraryModel

from clawbot.agent.dialects import Dialect, dialect_of, known_providers
from clawbot.agent.endpoint import Endpoint
from clawbot.agent.model_errors import PROVIDER_FAILURES, classify
from clawbot.agent.offline import OfflineModel
from clawbot.agent.wire import Wired, to_reply, to_wire, usage_of
from clawbot.config_sections import OFFLINE_MODEL, ProviderConfig
from clawbot.errors import ConfigError, ModelError
from clawbot.history import ModelReply, ModelRequest
from clawbot.ports import Model
from clawbot.text import clean

CONNECT_TIMEOUT_S = 10.0
# A bound for a dead connection alone: the loop's own time-outs are far below it.
SILENCE_TIMEOUT_S = 900.0
KEEP_ALIVE_S = 30.0
# Above the turns of one worker: a turn must never wait for another one's connection.
MAX_CONNECTIONS = 2000


class ModelPool:
    """The models of one worker process, made on first use. `aclose` ends their connections."""

    def __init__(self, providers: Mapping[str, ProviderConfig]) -> None:
        self._providers = providers
        self._clients = HttpClients()
        self._models: dict[str, Model] = {}
        self._lock = asyncio.Lock()

    async def get(self, name: str) -> Model:
        """The model of this name, the same object each time; ConfigError if it cannot be used."""
        model = self._models.get(name)
        if model is not None:
            return model
        async with self._lock:
            if name not in self._models:
                # A provider's SDK takes about a second to import: not on the event loop.
                self._models[name] = await asyncio.to_thread(
                    open_model, name, self._providers, self._clients
                )
            return self._models[name]

    async def aclose(self) -> None:
        """Close all connections; may be called twice."""
        self._models.clear()
        await self._clients.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class HttpClients:
    """The HTTP clients that models share: one through the environment's proxy, one past it."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}

    def for_url(self, url: str) -> httpx2.AsyncClient:
        """The client for an address. Nothing on this host is reached through a proxy."""
        trust_env = not is_loopback(url)
        if trust_env not in self._clients:
            self._clients[trust_env] = Httpx2AiohttpClient(
                trust_env=trust_env,
                timeout=httpx2.Timeout(SILENCE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                limits=httpx2.Limits(
                    max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S
                ),
            )
        return self._clients[trust_env]

    async def aclose(self) -> None:
        """Close them; the next use opens new ones."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


class RemoteModel:
    """A model behind a provider's API; see `clawbot.ports.Model`."""

    def __init__(
        self,
        name: str,
        library_model: LibraryModel,
        dialect: Dialect,
        thinking: str | None = None,
    ) -> None:
        self.name = name
        self._thinking = thinking
        self._library_model = library_model
        self._dialect = dialect

    async def reply(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
        """Make one streamed call. Cancelling it closes its connection."""
        request = replace(request, thinking=request.thinking or self._thinking)
        wired = to_wire(request, self._dialect, self.name)
        try:
            response = await self._stream(wired, on_text)
        except PROVIDER_FAILURES as error:
            raise classify(error, model=self.name, dialect=self._dialect) from error
        self._check_end(response)
        reply = to_reply(response, wired)
        if not reply.text.strip() and not reply.tool_calls:
            raise ModelError(
                f"model {self.name}: an empty answer, ended by {reply.finish_reason}",
                kind="invalid",
                usage=reply.usage,
            )
        return reply

    async def _stream(self, wired: Wired, on_text: Callable[[str], None]) -> ModelResponse:
        visible = _VisibleText(on_text)
        async with model_request_stream(
            self._library_model,
            wired.messages,
            model_settings=wired.settings,
            model_request_parameters=wired.parameters,
        ) as stream:
            async for event in stream:
                visible.take(event)
            return stream.get()

    def _check_end(self, response: ModelResponse) -> None:
        """Only a stream that says why it ended is whole; a cut connection looks like an end too."""
        if response.finish_reason == "content_filter":
            raise ModelError(
                f"model {self.name}: refused to answer", kind="refused", usage=usage_of(response)
            )
        if response.state != "complete" or response.finish_reason in {None, "error"}:
            raise ModelError(
                f"model {self.name}: the answer broke off",
                kind="retryable",
                usage=usage_of(response),
            )


class _VisibleText:
    """Passes on the text in pieces, joined as `ModelResponse.text` does, and signs of life."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._has_begun = False

    def take(self, event: ModelResponseStreamEvent) -> None:
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            if self._has_begun and event.previous_part_kind != "text":
                self._on_text("\n\n")
            self._has_begun = True
            self._on_text(clean(event.part.content))
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            self._on_text(clean(event.delta.content_delta))
        else:
            self._on_text("")  # the model has begun, with what nobody is shown


def open_model(name: str, providers: Mapping[str, ProviderConfig], clients: HttpClients) -> Model:
    """Make the model that a config names. May take a second: it imports the provider's SDK.

    Raise ConfigError when the provider is unknown or its address or key is missing.
    """
    if name == OFFLINE_MODEL:
        return OfflineModel()
    provider, _, model_name = name.partition(":")
    settings = providers.get(provider, ProviderConfig())
    dialect = dialect_of(provider, settings.kind)
    is_known = provider in known_providers()
    if dialect is None or not model_name or not (is_known or settings.base_url):
        known = ", ".join(sorted({*known_providers(), *providers}))
        raise ConfigError(
            f"model {name}: no such provider; write {OFFLINE_MODEL} or PROVIDER:NAME with one of "
            f"{known}, or give providers.{provider}.base_url"
        )
    base_url = settings.base_url or dialect.base_url
    endpoint = Endpoint(
        provider=provider,
        dialect=dialect,
        base_url=base_url,
        is_own=settings.base_url is not None,
        api_key=_key(provider, settings, dialect),
        http_client=clients.for_url(base_url),
    )
    thinking = None if settings.thinking == "first" else settings.thinking
    return RemoteModel(name, _build(endpoint, model_name), dialect, thinking)


def _build(endpoint: Endpoint, model_name: str) -> LibraryModel:
    if endpoint.dialect.api == "anthropic":
        from clawbot.agent.anthropic_models import build_model  # noqa: PLC0415  # heavy, see there

        return build_model(endpoint, model_name)
    from clawbot.agent.openai_models import build_model as build  # noqa: PLC0415  # heavy too

    return build(endpoint, model_name)


def _key(provider: str, settings: ProviderConfig, dialect: Dialect) -> SecretStr:
    if settings.api_key is not None and settings.api_key.get_secret_value():
        return settings.api_key
    if settings.base_url is None:
        raise ConfigError(
            f"config providers.{provider}.api_key: missing; set it, for example to "
            f"${{{dialect.key_variable}}}"
        )
    # A server of one's own may want no key, but the SDKs do.
    return SecretStr("none")


def is_loopback(url: str) -> bool:
    """Whether an address is on this host."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
