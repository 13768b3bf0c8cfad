"""The section `tracing` of the YAML: what turns did, as trees of spans."""

from __future__ import annotations

from pydantic import Field, SecretStr

from clawbot.config_sections import HttpUrlText, Section


class TracingConfig(Section):
    """Traces of turns: which models and tools were called, how long it took, what it cost."""

    files: bool = False
    """Whether to keep a JSON file of each turn in the state dir; `clawbot trace` shows them."""
    otlp_endpoint: HttpUrlText | None = None
    """The address of an OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318."""
    otlp_headers: dict[str, SecretStr] = Field(default={})
    """What is sent to it with each request, such as Authorization."""
    content: bool = False
    """Whether traces hold what people, models and tools said, and the arguments of tools."""
