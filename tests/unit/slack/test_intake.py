"""The doors for payloads without any connection: what is acknowledged, and when not."""

import asyncio
import gc
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from pydantic import SecretStr

from adapters.order import ArrivalOrder
from adapters.slack.adapter import SlackAdapter, open_adapter
from adapters.slack.config import SlackConfig
from adapters.slack.intake import Intake
from clawbot.errors import StoreUnavailable
from clawbot.messages import Accepted, InboundMessage
from tests.unit.slack.events import FACTS, callback, dm, post, slash

SECRET = "s3cret"
NOW_S = 1_700_000_000
FORM = "application/x-www-form-urlencoded"


class FixedClock:
    def now_ms(self) -> int:
        return NOW_S * 1000

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


class Accepting:
    """Records, or fails as it is told."""

    def __init__(self) -> None:
        self.messages: list[InboundMessage] = []
        self.error: Exception | None = None

    async def __call__(self, message: InboundMessage) -> Accepted:
        if self.error is not None:
            raise self.error
        self.messages.append(message)
        return Accepted(inbox_id=1, decision="queued")


@pytest.fixture
def accept() -> Accepting:
    return Accepting()


@pytest.fixture
async def adapter() -> AsyncIterator[SlackAdapter]:
    config = SlackConfig(
        mode="http", bot_token=SecretStr("xoxb-1"), signing_secret=SecretStr(SECRET)
    )
    adapter = open_adapter("slack", config, FixedClock())
    adapter.adopt(FACTS.identity)
    yield adapter
    await adapter.close()


@pytest.fixture
async def intake(adapter: SlackAdapter, accept: Accepting) -> Intake:
    return adapter.intake(accept)


def envelope(payload: Any, kind: str = "events_api", **fields: Any) -> dict[str, Any]:
    accepts = kind != "events_api"
    frame = {"envelope_id": "e1", "type": kind, "payload": payload}
    return frame | {"accepts_response_payload": accepts} | fields


def signed(body: bytes, *, at: str = str(NOW_S), secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), b"v0:" + at.encode() + b":" + body, hashlib.sha256)
    return {"X-Slack-Request-Timestamp": at, "X-SLACK-SIGNATURE": f"v0={digest.hexdigest()}"}


async def posted(intake: Intake, body: bytes, kind: str = "application/json", **sign: str) -> int:
    headers = signed(body, **sign) | {"Content-Type": kind}
    return (await intake.handle_http("POST", headers, {}, body)).status


async def test_a_message_does_not_silence_our_own_log(intake: Intake) -> None:
    # Bolt gives the logger that is named as its app the level of the one it is handed.
    await intake.handle_envelope(json.dumps(envelope(dm("hi"))))
    for name in ("clawbot", "adapters", "slack"):
        assert logging.getLogger(name).level != logging.CRITICAL


async def test_an_envelope_is_acknowledged_when_it_is_stored(
    intake: Intake, accept: Accepting
) -> None:
    assert await intake.handle_envelope(json.dumps(envelope(dm("hi")))) == {"envelope_id": "e1"}
    assert [message.text for message in accept.messages] == ["hi"]


@pytest.mark.parametrize("error", [StoreUnavailable(), RuntimeError("a bug")])
async def test_nothing_is_acknowledged_that_was_not_stored(
    intake: Intake, accept: Accepting, error: Exception
) -> None:
    accept.error = error
    assert await intake.handle_envelope(envelope(dm("hi"))) is None
    assert await intake.handle_envelope(envelope(slash("hi"), "slash_commands")) is None
    assert await posted(intake, json.dumps(dm("hi")).encode()) == 503
    assert await posted(intake, urlencode(slash("hi")).encode(), FORM) == 503


@pytest.mark.parametrize("frame", ["", "Ping", "[]", "{", '{"type":"hello"}', "9" * 5000])
async def test_frames_that_want_no_ack_get_none(intake: Intake, frame: str) -> None:
    assert await intake.handle_envelope(frame) is None


@pytest.mark.parametrize(
    "frame",
    [
        envelope(None),
        envelope("text"),
        envelope({}),
        envelope({"type": "event_callback"}),
        envelope({"type": "event_callback", "event": {"type": 1}}),
        envelope({"type": ["event_callback"]}),
        envelope(post("hi") | {"authorizations": [None], "team_id": 5}),
        envelope(post("hi", user={"id": "U1"})),
        envelope(callback({"type": "app_mention"})),
        envelope({"x": 1}, kind="of_tomorrow"),
        envelope({"type": "of_tomorrow"}, kind="interactive"),
        envelope({"type": "block_actions", "actions": None}, kind="interactive"),
        envelope({"type": "block_suggestion", "action_id": "a", "block_id": "b", "value": ""}),
        envelope({"type": "view_submission", "view": {"callback_id": "c"}}, kind="interactive"),
        envelope({"type": "shortcut", "callback_id": "c"}, kind="interactive"),
        envelope({"command": None}, kind="slash_commands"),
    ],
)
async def test_whatever_else_comes_is_acknowledged_so_that_it_does_not_come_again(
    intake: Intake, frame: dict[str, Any]
) -> None:
    ack = await intake.handle_envelope(frame)
    assert ack is not None
    assert ack["envelope_id"] == "e1"


async def test_missing_slash_words_are_answered_in_the_ack(
    intake: Intake, accept: Accepting
) -> None:
    ack = await intake.handle_envelope(envelope(slash(" "), "slash_commands"))
    assert ack is not None
    assert ack["payload"]["response_type"] == "ephemeral"
    assert "/clawbot help" in ack["payload"]["text"]
    body = urlencode(slash("")).encode()
    answer = await intake.handle_http("POST", signed(body) | {"content-type": FORM}, {}, body)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body)["response_type"] == "ephemeral"
    assert accept.messages == []


async def test_forms_are_read(intake: Intake, accept: Accepting) -> None:
    assert await posted(intake, urlencode(slash("a &amp; b")).encode(), FORM) == 200
    press = urlencode({"payload": json.dumps({"type": "block_actions", "actions": []})})
    assert await posted(intake, press.encode(), FORM + "; charset=utf-8") == 200
    assert await posted(intake, b"ssl_check=1&token=x", FORM) == 200
    assert [message.text for message in accept.messages] == ["a & b"]


async def test_the_challenge_is_returned(intake: Intake) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "c"}).encode()
    answer = await intake.handle_http("POST", signed(body), {}, body)
    assert (answer.status, json.loads(answer.body)) == (200, {"challenge": "c"})


@pytest.mark.parametrize(
    "sign",
    [
        {"at": str(NOW_S - 301)},
        {"at": str(NOW_S + 301)},
        {"at": "now"},
        {"at": "-1"},
        {"at": "²"},
        {"at": "9" * 5000},
        {"secret": "other"},
    ],
)
async def test_a_request_that_slack_did_not_sign_now_is_refused(
    intake: Intake, accept: Accepting, sign: dict[str, str]
) -> None:
    assert await posted(intake, json.dumps(dm("hi")).encode(), **sign) == 401
    assert accept.messages == []


async def test_a_signature_covers_the_raw_bytes(intake: Intake) -> None:
    body = json.dumps(dm("hi")).encode()
    headers = signed(body)
    assert (await intake.handle_http("POST", headers, {}, body + b" ")).status == 401
    assert (await intake.handle_http("POST", {}, {}, body)).status == 401
    headers["X-SLACK-SIGNATURE"] = "v0=\u00e9\udcff"
    assert (await intake.handle_http("POST", headers, {}, body)).status == 401


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000]
)
async def test_junk_that_is_signed_is_refused(intake: Intake, body: bytes) -> None:
    assert await posted(intake, body) == 400


async def test_other_methods_and_large_bodies_are_refused(intake: Intake) -> None:
    assert (await intake.handle_http("GET", {}, {}, b"")).status == 405
    assert await posted(intake, b" " * 1_048_577) == 413


async def test_those_who_came_first_are_served_first_and_the_queue_leaves_nothing() -> None:
    order, served = ArrivalOrder(), []
    gate = asyncio.Event()

    async def visit(chat: str, number: int) -> None:
        async with order.turn(chat):
            if number == 0:
                await gate.wait()
            served.append((chat, number))

    tasks = [asyncio.create_task(visit("a", number)) for number in range(5)]
    await asyncio.create_task(visit("b", 1))
    tasks[2].cancel()
    gate.set()
    await asyncio.wait(tasks)
    tasks.clear()
    gc.collect()
    assert served == [("b", 1), ("a", 0), ("a", 1), ("a", 3), ("a", 4)]
    assert not order._locks
