"""An OpenTelemetry collector: it takes spans in over OTLP/HTTP, as protobuf, and keeps them.

    async with Collector() as collector:
        ... endpoint: collector.url ...
        await collector.wait_spans(lambda spans: "turn" in {span.name for span in spans})

It knows nothing of clawbot. `is_failing` makes it answer 503.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSpan:
    """A span as the collector was told of it. error: the text of its status, if it is an error."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    started_ns: int
    ended_ns: int
    error: str | None
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """The collector; `bodies` is what was sent to it, byte by byte."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.is_failing = False
        self.refused = 0
        self.url = ""
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/traces", self._take)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def wait_spans(self, is_right: Callable[[Sequence[SeenSpan]], bool]) -> list[SeenSpan]:
        """All spans, once they are right."""
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: is_right(self.spans))
        return list(self.spans)

    async def wait_refused(self) -> None:
        """Wait until somebody was refused."""
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: self.refused > 0)

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        async with self._changed:
            self._changed.notify_all()
            if self.is_failing:
                self.refused += 1
                return web.Response(status=503)
            if request.headers.get("content-encoding") == "gzip" and body[:2] == b"\x1f\x8b":
                body = gzip.decompress(body)
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            self.spans += _spans(ExportTraceServiceRequest.FromString(body))
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(),
            content_type="application/x-protobuf",
        )


def _spans(message: Any) -> list[SeenSpan]:
    return [
        SeenSpan(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            name=span.name,
            kind=span.kind,
            started_ns=span.start_time_unix_nano,
            ended_ns=span.end_time_unix_nano,
            error=span.status.message if span.status.code == 2 else None,
            attributes=_values(span.attributes),
            resource=_values(of_resource.resource.attributes),
        )
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(one) for one in value.array_value.values)
    return getattr(value, kind)
