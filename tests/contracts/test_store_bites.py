"""The store contract bites: for each clause, a store that breaks it fails it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.broken import BREAKS, Break
from tests.contracts.sqlite_ground import SqliteGround
from tests.contracts.store import StoreContract

# A failed assertion, a wait in vain, another number of rows than the clause unpacks.
BITES = (AssertionError, TimeoutError, ValueError, pytest.fail.Exception)
CLAUSES = [
    name for name, _ in inspect.getmembers(StoreContract, inspect.isfunction) if "test_" in name
]


@pytest.fixture
async def ground(sqlite_template: Path) -> AsyncIterator[SqliteGround]:
    """A database on which nobody waits long for what a broken store never does."""
    made = SqliteGround(sqlite_template, patience_s=1.0)
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_is_held_against_a_store_that_breaks_it(clause: str) -> None:
    assert any(one.clause == clause for one in BREAKS)


@pytest.mark.parametrize(
    "broken", BREAKS, ids=[f"{one.clause}-{one.fault}".replace(" ", "_") for one in BREAKS]
)
async def test_a_store_that_breaks_a_clause_fails_it(
    broken: Break, ground: SqliteGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = getattr(StoreContract(), broken.clause)
    broken.apply(monkeypatch, ground)
    with pytest.raises((*BITES, *broken.raises)):
        await hold(ground)
    monkeypatch.undo()
