"""Mixed faults for a quarter of an hour on a fast clock; `feishu_storm` runs hours of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.feishu_storm import storm


@pytest.mark.parametrize(("seed", "transport"), [(1, "long_connection"), (2, "webhook")])
async def test_no_answer_is_lost_and_none_is_doubled_in_a_storm(
    tmp_path: Path, seed: int, transport: str
) -> None:
    figures = await storm(tmp_path, seed=seed, hours=0.2, speed=60, transport=transport)
    assert figures.is_good, figures
    assert min(figures.messages, figures.faults, figures.links_lost) > 0, figures
