"""What each answer of the API means for the message."""

from __future__ import annotations

import pytest

from adapters.feishu.failures import RateLimited, TokenRefused, from_answer
from clawbot.errors import NotSent, OutcomeUnknown, Rejected


@pytest.mark.parametrize(
    ("status", "answer", "failure"),
    [
        (200, {"code": 0}, None),
        (200, {"code": "0"}, None),
        (200, {"code": 230002}, Rejected),
        (400, {"code": 230099}, Rejected),
        (400, {"code": 99991672}, Rejected),
        (200, {"code": 99991663}, TokenRefused),
        (400, {"code": 99991400}, RateLimited),
        (429, {"code": 99991400}, RateLimited),
        (400, {"code": 230020}, RateLimited),
        (400, {"code": 11232}, RateLimited),
        (400, {"code": 99991403}, RateLimited),
        (429, None, RateLimited),
        (400, {"code": 230049}, OutcomeUnknown),
        (500, {"code": 2200}, OutcomeUnknown),
        (502, None, OutcomeUnknown),
        (200, None, OutcomeUnknown),
        (200, {"msg": "no code"}, OutcomeUnknown),
        (404, None, NotSent),
        (407, None, NotSent),
    ],
)
def test_an_answer_is_sorted_by_what_to_do(
    status: int, answer: dict[str, object] | None, failure: type[Exception] | None
) -> None:
    found = from_answer("message.create", status, {}, answer)
    assert type(found) is (failure or type(None))


@pytest.mark.parametrize(
    ("headers", "pause_s"),
    [
        ({"x-ogw-ratelimit-reset": "7"}, 7.0),
        ({"Retry-After": "3"}, 3.0),
        ({"x-ogw-ratelimit-reset": "soon", "Retry-After": "2"}, 2.0),
        ({}, 1.0),
    ],
)
def test_the_pause_is_the_one_that_feishu_names(headers: dict[str, str], pause_s: float) -> None:
    error = from_answer("message.create", 400, headers, {"code": 99991400})
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == pause_s


def test_a_used_up_quota_is_left_alone_for_long() -> None:
    error = from_answer("message.create", 400, {}, {"code": 99991403})
    assert isinstance(error, RateLimited)
    assert (error.retry_after_s or 0) >= 3600
