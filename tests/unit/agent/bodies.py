"""The HTTP bodies that a request becomes on each provider's wire, without a server.

The real SDKs write them; a transport keeps the body and answers with an error.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from clawbot.agent import anthropic_models, openai_models
from clawbot.agent.dialects import ANTHROPIC, DEEPSEEK, OPENAI, OPENAI_CHAT, ZAI, Dialect
from clawbot.agent.endpoint import Endpoint
from clawbot.agent.models import RemoteModel
from clawbot.errors import ModelError
from clawbot.history import ModelRequest
from tests.simulators.model import Strictness, Violation, violations

DIALECTS = (OPENAI_CHAT, OPENAI, ANTHROPIC, ZAI, DEEPSEEK)
MODEL_NAMES = {
    "openai-chat": "gpt-4.1",
    "openai": "gpt-4.1",
    "anthropic": "claude-sonnet-5",
    "zai": "glm-4.6",
    "deepseek": "deepseek-reasoner",
}


class BodyWriter:
    """Writes the body of one dialect's call."""

    def __init__(self, dialect: Dialect, runner: asyncio.Runner, name: str = "") -> None:
        self.dialect = dialect
        self._runner = runner
        self._bodies: list[dict[str, Any]] = []
        endpoint = Endpoint(
            provider=dialect.name,
            dialect=dialect,
            base_url="http://127.0.0.1:1",
            is_own=False,
            api_key=SecretStr("key"),
            http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(self._keep)),
        )
        name = name or MODEL_NAMES[dialect.name]
        module = anthropic_models if dialect.api == "anthropic" else openai_models
        self.model = RemoteModel(
            f"{dialect.name}:{name}", module.build_model(endpoint, name), dialect
        )

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The body of the call that carries this request."""
        with pytest.raises(ModelError):
            self._runner.run(self.model.reply(request, lambda _piece: None))
        return self._bodies.pop()

    def violations(self, body: dict[str, Any]) -> list[Violation]:
        """The rules that a body breaks."""
        strictness = Strictness()
        if self.dialect is ZAI:
            strictness = replace(strictness, content_required=True)
        if self.dialect is DEEPSEEK:
            strictness = replace(strictness, reasoning_content=True)
        api = "openai-responses" if self.dialect.api == "openai" else self.dialect.api
        return violations(api, body, strictness)

    def _keep(self, request: httpx2.Request) -> httpx2.Response:
        self._bodies.append(json.loads(request.content))
        return httpx2.Response(400, json={"error": {"message": "kept"}})


@contextmanager
def body_writers() -> Iterator[dict[str, BodyWriter]]:
    """A writer for each dialect, and for a model that is told how many tokens it may think."""
    with asyncio.Runner() as runner:
        writers = {dialect.name: BodyWriter(dialect, runner) for dialect in DIALECTS}
        yield {**writers, "anthropic, by budget": BodyWriter(ANTHROPIC, runner, "claude-opus-4-1")}
