"""Logs: one line an event on stderr, JSON for machines or aligned text for a terminal.

How to log: `log = structlog.get_logger(__name__)`, then `log.info("turn_finished", session=…)`.
The event is a word of a stable vocabulary (what happened, past tense, snake_case), everything that
varies stands in fields, so that operators can search and count. One turn is one line, `log_turn`.
What a person wrote goes into the field `text`, which is dropped unless the line is at debug.

Libraries that use the standard library's logging come through the same pipeline, from warning on.
Secrets are taken out of every field and traceback: configured values, and what looks like one.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import sys
import threading
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from typing import Any, TextIO

import structlog
from pydantic import SecretStr
from structlog.typing import FilteringBoundLogger, Processor

from clawbot.config_sections import LogConfig

REDACTED = "***"
OWN_LOGGERS = ("clawbot", "adapters")
"""The packages whose loggers follow the configured level; all others begin at warning."""

# Shorter values would blot out ordinary words.
_SHORTEST_SECRET = 6
# Ends on the word: `bot_token` is a secret, `output_tokens` and `first_token_ms` are figures.
_SECRET_KEY = re.compile(
    r"(?:^|[_-])(?:token|secret|password|passwd|api[_-]?key|authorization|cookie|ticket)$",
    re.IGNORECASE,
)
_FIGURES = {int, float, bool, type(None)}
_WRITING = threading.RLock()
_SECRET_TEXT = re.compile(
    r"(\bBearer\s+|[?&](?:[a-z]+_)?(?:token|secret|key|ticket|password)=)[^\s&\"']+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSummary:
    """What the line of one turn tells.

    outcome: done, stopped, failed, parked or lost. messages: how many inbound messages it answered.
    attempt: from 1. error_id: what the chat was shown, if anything failed. stages_ms: how long each
    stage took, by its name, in the order of the path: accept, wait, prompt, first_token, model,
    tools, finish, deliver.
    """

    turn: str
    session: str
    outcome: str
    model: str
    messages: int = 1
    steps: int = 0
    attempt: int = 1
    input_tokens: int | None = None
    output_tokens: int | None = None
    error_id: str | None = None
    stages_ms: Mapping[str, int] = field(default_factory=dict)


_TOLD = tuple(field.name for field in fields(TurnSummary) if field.name != "stages_ms")


def log_turn(log: FilteringBoundLogger, summary: TurnSummary) -> None:
    """Write the one canonical line of a turn."""
    # Not by `asdict`, which copies every value: it took as long as the rest of the line.
    told = {name: value for name in _TOLD if (value := getattr(summary, name)) is not None}
    told |= {f"{name}_ms": value for name, value in summary.stages_ms.items()}
    (log.warning if summary.outcome == "failed" else log.info)("turn_finished", **told)


def configure_logs(
    config: LogConfig, secrets: Iterable[SecretStr] = (), stream: TextIO | None = None
) -> None:
    """Set up logging for this process; a later call replaces an earlier one."""
    stream = stream or sys.stderr
    level = logging.getLevelNamesMapping()[config.level.upper()]
    as_text = config.format == "console" or (config.format == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        # A traceback as plain text, never with the values of variables.
        structlog.processors.format_exc_info,
        keep_text_at_debug,
        Redactor(secret.get_secret_value() for secret in secrets),
    ]
    rendering: list[Processor] = (
        [_console(stream)] if as_text else [first_fields_first, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    # What no line tells is not found out for each: https://docs.python.org/3/howto/logging.html
    logging._srcfile = None  # noqa: SLF001 - as "Optimization" says
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in OWN_LOGGERS:  # ours, where somebody speaks through the standard library
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda name="": _Lines(name, stream),
        cache_logger_on_first_use=False,
    )


class _Lines:
    """Where our own lines go: straight to the stream. The standard library's record of each took
    as long as all else about it.
    """

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self._stream = stream

    def msg(self, line: str) -> None:
        """Write a line. One that cannot be written, for a closed pipe or a full disk, is lost."""
        with contextlib.suppress(OSError, ValueError), _WRITING:
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg


def name_process(process_id: str) -> None:
    """Put this process's id into every line that it logs from here on."""
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(process=process_id)


def keep_text_at_debug(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop what people wrote unless the line is a debug line."""
    if event.get("level") != "debug":
        event.pop("text", None)
    return event


def first_fields_first(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Begin every line with the same fields, for people who read JSON."""
    first = ("timestamp", "level", "event", "logger", "process")
    return {name: event[name] for name in first if name in event} | dict(event)


@functools.lru_cache(maxsize=1024)
def _names_a_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None


class Redactor:
    """Replaces secrets in all fields of a line, however deep."""

    def __init__(self, secrets: Iterable[str]) -> None:
        long_enough = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
        # Longest first: one secret may begin with another one.
        ordered = sorted(long_enough, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Act as a processor."""
        for key, value in event.items():
            # Figures are nobody's secret; the formatter's own objects are taken out again.
            if type(value) not in _FIGURES and key not in {"_record", "_from_structlog"}:
                event[key] = self.clean(value, key)
        return event

    def clean(self, value: object, key: object = "") -> object:
        """The value as it may be shown under this key."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(key, str) and _names_a_secret(key):
            return REDACTED
        if isinstance(value, Mapping):
            return {str(name): self.clean(entry, name) for name, entry in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.clean(entry, key) for entry in value]
        text = value if isinstance(value, str) else str(value)
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        if "=" not in text and len(text.split(None, 1)) < 2:  # one word cannot match
            return text
        return _SECRET_TEXT.sub(lambda match: match[1] + REDACTED, text)


def _console(stream: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
