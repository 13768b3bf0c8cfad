"""The figures about working memory can be taken. How good they are is no test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import memory


async def test_a_run_measures_requests_large_texts_and_counting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HISTORIES", (100, 300))
    monkeypatch.setattr(memory, "HARD_TEXTS", {"JSON": '{"a": 1}' * 100})
    rows = await memory.run(tmp_path, times=2)
    assert [row.name for row in rows] == [
        "request from 100 messages",
        "request from 300 messages",
        "tool result of 5 MB",
        "paste of 5 MB",
        "count 800 bytes: JSON",
    ]
    assert all(row.ms > 0 for row in rows)
