"""The kill matrix, short: on each platform a part of the points, all points together; a command
goes through all of them, with all victims, on both stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill_matrix import everybody, strikes_of
from tests.matrix.matrix import open_matrix
from tests.matrix.nursery import Nursery
from tests.matrix.platforms import PLATFORMS
from tests.matrix.points import points_of
from tests.matrix.strikes import Strike
from tests.matrix.talk import Asked, Seen, Sent
from tests.postgres import Cluster

SEED = 7
STORES = {
    "slack": "postgres",
    "feishu": "sqlite",
    "feishu-webhook": "postgres",
    "wecom": "sqlite",
    "wechat": "postgres",
}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server that may be killed without harm to other tests."""
    opened = Cluster.start()
    try:
        yield opened
    finally:
        opened.stop()


def owners() -> dict[str, str]:
    """By which platform each point is tried: the work is shared."""
    having: dict[str, list[str]] = {}
    for platform in PLATFORMS:
        for point in points_of(platform, STORES[platform]):
            having.setdefault(point.name, []).append(platform)
    return {name: who[number % len(who)] for number, (name, who) in enumerate(having.items())}


def short(platform: str) -> list[Strike]:
    """The platform's share of the points, at which the process dies that comes there; and one
    strike for each other kind of victims.
    """
    owner = owners()
    strikes: list[Strike] = []
    others = {("adapter", "worker"), ("server",), ("backend",), ("other",)}
    for strike in strikes_of(platform, STORES[platform], SEED):
        point, victims = strike.recovery or strike.point, strike.victims
        if point is None:
            continue
        if strike.recovery is not None or victims == (point.role,):
            if owner[point.name] == platform or point.name == "ack.before":
                strikes.append(strike)
            continue
        kind = ("other",) if victims in {("adapter",), ("worker",)} else victims
        if kind in others:
            others.discard(kind)
            strikes.append(strike)
    return strikes


def test_together_the_short_matrices_come_to_every_point() -> None:
    struck: set[str] = set()
    victims: set[tuple[str, ...]] = set()
    for platform in PLATFORMS:
        for strike in short(platform):
            struck |= {point.name for point in (strike.point, strike.recovery) if point}
            victims.add(strike.victims)
    assert struck == {point.name for name in PLATFORMS for point in points_of(name, STORES[name])}
    assert victims == set(everybody("postgres"))


def test_the_count_sees_what_is_missing_doubled_or_in_the_wrong_place() -> None:
    asked = Asked(number=7, kind="tool", place=("a",), chat_id="a", paragraphs=1)

    def seen(*texts: str, place: str = "a") -> Seen:
        return Seen(Sent(place=(place,), text=text) for text in texts)

    def found(seen: Seen) -> tuple[bool, bool, bool]:
        return seen.is_whole(asked), seen.is_doubled(asked, 1), seen.is_astray(asked)

    whole = "[7.first] done [7.last]"
    assert found(seen(whole)) == (True, False, False)
    assert found(seen()) == (False, False, False)
    assert found(seen("[7.first] do")) == (False, False, False)
    assert found(seen("[8.first] done [8.last]")) == (False, False, False)
    assert found(seen(whole, whole)) == (True, True, False)
    assert found(seen("[7.first] do", whole)) == (True, True, False)
    assert found(seen("[7.first] do", "[7.last]")) == (True, True, False)
    assert found(seen(whole, place="b")) == (True, False, True)
    assert [stray.text for stray in seen(whole, "An error").strays] == ["An error"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_kill_at_any_point_of_a_messages_path_loses_and_doubles_nothing(
    tmp_path: Path, nursery: Nursery, request: pytest.FixtureRequest, platform: str
) -> None:
    cluster = request.getfixturevalue("cluster") if STORES[platform] == "postgres" else None
    strikes = short(platform)
    async with open_matrix(tmp_path, platform, nursery, seed=SEED, cluster=cluster) as matrix:
        figures = await matrix.run(strikes)
    assert figures.problems == []
    assert (figures.lost, figures.doubled) == (0, 0)
    assert platform == "wechat" or figures.unknown == 0
    # It did kill, and where it says.
    wanted = {(each.name, victim) for each in strikes for victim in each.victims}
    wanted |= {(each.recovery.name, each.recovery.role) for each in strikes if each.recovery}
    assert set(figures.kills) == wanted
    assert figures.messages >= len(strikes)


@pytest.mark.timeout(300)
async def test_an_adapter_that_does_not_look_up_what_it_sent_is_found_out(tmp_path: Path) -> None:
    (point,) = (each for each in points_of("slack", "sqlite") if each.name == "send.after")
    strike = Strike(point=point, victims=("adapter",))
    with Nursery(broken="adapters.slack.adapter:SlackAdapter.lookup") as nursery:
        async with open_matrix(tmp_path, "slack", nursery, seed=SEED) as matrix:
            figures = await matrix.run([strike])
    assert (figures.lost, figures.doubled) == (0, 1)
    assert len(figures.problems) == 1
