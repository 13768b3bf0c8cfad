"""The soak, short: people talk on two platforms at once while things fail one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.ground import soak

FIRST = ("calls fail", "process killed", "link lost", "disk full")


@pytest.mark.timeout(400)
async def test_while_everything_fails_nothing_is_lost_or_doubled_and_nothing_is_left_over(
    tmp_path: Path,
) -> None:
    report = await soak(
        tmp_path,
        minutes=0.1,
        seed=1,
        names=("slack", "wecom"),
        cluster=None,
        workers=1,
        first=FIRST,
    )
    assert report.problems == []
    assert (report.lost, report.doubled, report.unknown) == (0, 0, 0)
    assert set(report.happened) >= set(FIRST)
    assert report.messages >= 10
    assert report.memory_mb
