"""Finds calls that block the event loop: a test that runs into one fails.

Only calls that come from our own code count (`clawbot`, `adapters`), directly or through a
library; what a test or the test tools do in the loop disturbs nobody. Work in threads is free.
"""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster
from pytest_asyncio import is_async_test

# (patched call, file, function, reason): where our code may block in the loop all the same.
# Each entry is a promise that the call is short and rare.
EXCEPTIONS: tuple[tuple[str, str, str, str], ...] = (
    (
        "io.TextIOWrapper.read",
        "clawbot/tools/commands.py",
        "_descendants",
        "a line of /proc, from the kernel's memory, when a command is ended",
    ),
)


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Watch every asynchronous test, from its fixtures to its end."""
    if not is_async_test(request.node):
        yield
        return
    watch = BlockBuster(scanned_modules=["clawbot", "adapters"])
    for call, file, function, _reason in EXCEPTIONS:
        watch.functions[call].can_block_in(file, function)
    watch.activate()
    try:
        yield
    finally:
        watch.deactivate()
