"""What a part's process does for itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from clawbot.process.part import collect_seldom


@pytest.fixture
def restored() -> Iterator[None]:
    """Garbage is collected as before afterwards."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("restored")
def test_what_was_imported_is_not_searched_for_garbage_again() -> None:
    young, _, _ = gc.get_threshold()
    collect_seldom()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold()[0] > young
    assert gc.isenabled()
