"""Traces to an OpenTelemetry collector, over HTTP, by OpenTelemetry's own exporter.

It runs in a thread of its own, with a bounded queue: a collector that is slow or away costs spans
and never a turn. It is imported only where the config names a collector.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from clawbot.agent.models import is_loopback
from clawbot.tracing.spans import Span

log = structlog.get_logger(__name__)

TIMEOUT_S = 5.0
CLOSE_S = 5.0
PATH = "/v1/traces"
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Collector:
    """Sends the spans of one process. endpoint: as OpenTelemetry has it, without the path."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], process_id: str) -> None:
        # The exporter warns of each failed try; `_Watched` says it once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        session = requests.Session()
        # Nothing on this host is reached through a proxy.
        session.trust_env = not is_loopback(endpoint)
        url = endpoint.rstrip("/").removesuffix(PATH) + PATH
        exporter = OTLPSpanExporter(
            endpoint=url, headers=dict(headers), timeout=TIMEOUT_S, session=session
        )
        self._processor = BatchSpanProcessor(_Watched(exporter, url))
        self._scope = InstrumentationScope("clawbot", version("clawbot"))
        self._resource = Resource.create(
            {
                "service.name": "clawbot",
                "service.version": version("clawbot"),
                "service.instance.id": process_id,
            }
        )

    def ended(self, span: Span) -> None:
        """Send a span, some time soon. Never waits."""
        self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send what waits, within a few seconds. Blocks."""
        # A thread that this process does not wait for at its end, unlike those of an executor.
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def _readable(self, span: Span) -> ReadableSpan:
        trace_id = span.trace.trace_id
        return ReadableSpan(
            span.name,
            context=_context(trace_id, span.span_id),
            parent=_context(trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.started_ns,
            end_time=span.ended_ns,
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), False, _SAMPLED)  # noqa: FBT003


class _Watched:
    """The exporter, with one line when it fails and one when it works again."""

    def __init__(self, exporter: OTLPSpanExporter, url: str) -> None:
        self._exporter = exporter
        self._url = url
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            if not self._lost:
                log.warning("traces_not_sent", endpoint=self._url)
            self._lost += len(spans)
        elif self._lost:
            log.info("traces_sent_again", endpoint=self._url, lost=self._lost)
            self._lost = 0
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))
