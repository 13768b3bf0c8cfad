"""The pace of what is sent: so much, by all processes of a channel together."""

from __future__ import annotations

import pytest

from adapters.feishu import pacing as feishu
from adapters.slack import pacing as slack
from clawbot.errors import NotSent


class Time:
    """A clock that sleeping moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def posts_of(processes: int, seconds: float) -> list[float]:
    """When so many processes post to one channel of Slack, each as fast as it may."""
    posts: list[float] = []
    for _ in range(processes):
        clock = Time()
        pacer = slack.Pacer(clock)
        pacer.processes = lambda: processes
        while clock.now < 1000 + seconds:
            try:
                await pacer.post_turn("C1")
            except NotSent as error:
                clock.now += error.retry_after_s or 0.0
            else:
                posts.append(clock.now)
    return posts


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
async def test_slack_gets_one_post_a_second_and_channel_from_all_processes(processes: int) -> None:
    posts = await posts_of(processes, 120)
    assert 110 <= len(posts) <= 120 + slack._POST_BURST + processes
    at_once = sum(at == 1000.0 for at in posts)
    assert at_once <= slack._POST_BURST


def test_slack_s_budgets_are_divided_by_the_processes() -> None:
    def appends(processes: int) -> int:
        pacer = slack.Pacer(Time())
        pacer.processes = lambda: processes
        count = 0
        while pacer.has_room("chat.appendStream"):
            pacer.spend("chat.appendStream")
            count += 1
        return count * processes

    assert appends(2) == pytest.approx(appends(1), abs=3)
    assert appends(4) == pytest.approx(appends(1), abs=5)


@pytest.mark.parametrize("processes", [1, 2, 5])
async def test_feishu_gets_four_messages_a_second_and_chat_from_all_processes(
    processes: int,
) -> None:
    count = 0
    for _ in range(processes):
        clock = Time()
        pacer = feishu.Pacer(clock)
        pacer.processes = lambda: processes
        while clock.now < 1060:
            await pacer.turn("oc_1")
            count += 1
    assert 230 <= count <= 240 + 2 * processes
