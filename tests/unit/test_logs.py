"""Logs: one line an event, no secrets, no text of people."""

import errno
import io
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import structlog
from pydantic import SecretStr

from clawbot.config_sections import LogConfig
from clawbot.logs import TurnSummary, configure_logs, log_turn, name_process

SECRET = "xoxb-very-secret"


class Lines(io.StringIO):
    """What was logged, parsed."""

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def one(self) -> dict[str, Any]:
        (line,) = self.all()
        return line


class Full(Lines):
    """A stream onto a full disk."""

    tried = 0

    def write(self, _text: str) -> int:
        self.tried += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def logged() -> Iterator[Lines]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    before_us = structlog.get_config()
    own = {name: logging.getLogger(name).level for name in ("clawbot", "adapters")}
    stream = Lines()
    configure(stream)
    yield stream
    structlog.configure(**before_us)
    structlog.contextvars.clear_contextvars()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in own.items():
        logging.getLogger(name).setLevel(before)


def configure(
    stream: Lines,
    level: Literal["debug", "info", "warning", "error"] = "info",
    log_format: Literal["auto", "json", "console"] = "auto",
) -> None:
    configure_logs(LogConfig(level=level, format=log_format), [SecretStr(SECRET)], stream)


def fail(message: str) -> None:
    raise ValueError(message)


def test_a_line_is_json_with_time_level_event_and_fields(logged: Lines) -> None:
    name_process("worker-1")
    structlog.get_logger("clawbot.worker").info("turn_claimed", session="slack:C1", attempts=2)
    line = logged.one()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "turn_claimed",
        "level": "info",
        "logger": "clawbot.worker",
        "process": "worker-1",
        "session": "slack:C1",
        "attempts": 2,
    }


def test_the_text_of_people_is_shown_at_debug_only(logged: Lines) -> None:
    log = structlog.get_logger("clawbot.inbox")
    log.info("message_accepted", text="my diary")
    log.debug("message_parsed", text="my diary")
    assert "my diary" not in logged.getvalue()
    configure(logged, "debug")
    log.debug("message_parsed", text="my diary")
    assert logged.all()[-1]["text"] == "my diary"


def test_secrets_are_taken_out_of_fields_urls_and_tracebacks(logged: Lines) -> None:
    log = structlog.get_logger("adapters.any")
    try:
        fail(f"refused {SECRET}")
    except ValueError as error:
        log.exception("call_failed", error=error, url=f"https://x/{SECRET}?a=1")
    event = f"called {SECRET}"
    log.info(
        event,
        deep=[{"Authorization": "Basic abc", "body": (SECRET, b"raw " + SECRET.encode())}],
        app_secret="tiny",
        header="Bearer learned-later",
        link="https://x/cgi?access_token=learned-later&b=2",
        key=SecretStr("learned-later"),
    )
    shown = logged.getvalue()
    for secret in (SECRET, "tiny", "learned-later", "Basic abc"):
        assert secret not in shown
    failed, called = logged.all()
    assert "ValueError: refused ***" in failed["exception"]
    assert called["link"] == "https://x/cgi?access_token=***&b=2"


def test_figures_about_tokens_are_no_secrets(logged: Lines) -> None:
    structlog.get_logger("clawbot").info("x", output_tokens=5, first_token_ms=7, token="abc")
    line = logged.one()
    assert (line["output_tokens"], line["first_token_ms"], line["token"]) == (5, 7, "***")


def test_libraries_speak_through_the_same_pipeline_from_warning_on(logged: Lines) -> None:
    configure(logged, "debug")
    logging.getLogger("some.library").info("chatter %s", 1)
    logging.getLogger("some.library").warning("odd %s of %s", "answer", SECRET)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old call", DeprecationWarning, stacklevel=1)
    library, warning = logged.all()
    assert library["event"] == "odd answer of ***"
    assert (library["level"], library["logger"]) == ("warning", "some.library")
    assert "old call" in warning["event"]


def test_the_level_of_the_config_counts_for_our_own_lines(logged: Lines) -> None:
    configure(logged, "warning")
    structlog.get_logger("clawbot.worker").info("turn_claimed")
    structlog.get_logger("adapters.any").warning("connection_lost")
    assert logged.one()["event"] == "connection_lost"


def test_a_turn_is_one_line_with_the_time_of_each_stage(logged: Lines) -> None:
    summary = TurnSummary(
        turn="t1",
        session="slack:C1",
        outcome="done",
        model="offline",
        steps=2,
        stages_ms={"wait": 3, "first_token": 40},
    )
    log_turn(structlog.get_logger("clawbot.worker"), summary)
    line = logged.one()
    assert line["event"] == "turn_finished"
    assert line["level"] == "info"
    assert (line["wait_ms"], line["first_token_ms"], line["steps"]) == (3, 40, 2)
    assert "error_id" not in line


def test_a_failed_turn_is_a_warning_with_its_error_id(logged: Lines) -> None:
    summary = TurnSummary(
        turn="t1", session="global", outcome="failed", model="offline", error_id="e-1"
    )
    log_turn(structlog.get_logger("clawbot.worker"), summary)
    assert logged.one()["level"] == "warning"
    assert logged.one()["error_id"] == "e-1"


def test_a_line_that_cannot_be_written_disturbs_nobody(logged: Lines) -> None:
    log = structlog.get_logger("clawbot.worker")
    full, closed = Full(), Lines()
    configure(full)
    log.info("turn_finished")
    configure(closed)
    closed.close()
    log.error("turn_crashed")
    configure(logged)
    log.info("turn_finished")
    assert logged.one()["event"] == "turn_finished"
    assert full.tried == 1


def test_console_lines_are_for_people_and_keep_secrets_out_too(logged: Lines) -> None:
    configure(logged, log_format="console")
    try:
        fail(SECRET)
    except ValueError:
        structlog.get_logger("clawbot").exception("call_failed", session="slack:C1")
    shown = logged.getvalue()
    assert "call_failed" in shown
    assert "session=slack:C1" in shown
    assert "ValueError: ***" in shown
    assert SECRET not in shown
    assert not shown.startswith("{")


def test_stderr_that_is_no_terminal_gets_json() -> None:
    code = (
        "import structlog; from clawbot.logs import *; from clawbot.config_sections import *;"
        "configure_logs(LogConfig()); structlog.get_logger('clawbot').info('started')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert json.loads(done.stderr)["event"] == "started"
