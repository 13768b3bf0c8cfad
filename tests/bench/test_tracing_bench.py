"""The cost of traces is measured against turns without them, and is a small part of them."""

from pathlib import Path

from tests.bench.tracing import measure


async def test_traces_are_compared_with_turns_without_them(tmp_path: Path) -> None:
    spent = await measure(tmp_path, turns=3, rounds=1)
    assert list(spent) == ["off", "files", "collector"]
    # Far above what it is, so that a busy machine does not decide: a trace is no second turn.
    assert max(spent.values()) < 4 * spent["off"]
