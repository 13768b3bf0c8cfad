"""A process that is stopped in the middle of a migration: `python -m tests.contracts.migrating`.

It says `middle` after statement COUNT of the migration, then waits for a line (or its death).
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqlalchemy import event

from clawbot.store import migrate
from clawbot.store.engine import open_sqlite_engine


def main(path: str, count: str) -> None:
    """Upgrade a database, with a pause."""
    engine = open_sqlite_engine(Path(path))
    left = int(count)

    def pause(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        nonlocal left
        if statement.lstrip().startswith(("CREATE", "INSERT", "ALTER")):
            left -= 1
            if left == 0:
                print("middle", flush=True)  # noqa: T201 - how the parent is told
                sys.stdin.readline()

    event.listen(engine, "after_cursor_execute", pause)
    migrate.upgrade(engine)
    print("done", flush=True)  # noqa: T201 - same


if __name__ == "__main__":
    main(*sys.argv[1:])
