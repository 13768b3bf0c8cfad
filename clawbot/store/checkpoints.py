"""Folding SQLite's log back into the database file, by one process at a time.

Which one is decided by a lock on a file, which the kernel frees when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from sqlalchemy import Connection

INTERVAL_S = 2.0
PASSIVE_BYTES = 4 * 1024 * 1024
TRUNCATE_BYTES = 64 * 1024 * 1024


class Checkpoints:
    """This process's share in keeping the log short; used by the writer thread alone."""

    def __init__(self, database: Path) -> None:
        self._log = Path(f"{database}-wal")
        self._lock_path = Path(f"{database}-checkpoints.lock")
        self._lock: int | None = None
        self._next = 0.0

    def run_if_due(self, conn: Connection) -> bool:
        """Between two transactions: checkpoint when the log is long and it is ours to do so."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + INTERVAL_S
        if not self._is_ours():
            return False
        size = self._log.stat().st_size if self._log.exists() else 0
        if size < PASSIVE_BYTES:
            return False
        mode = "TRUNCATE" if size > TRUNCATE_BYTES else "PASSIVE"
        conn.exec_driver_sql(f"PRAGMA wal_checkpoint({mode})")
        return True

    def close(self) -> None:
        """Leave it to another process."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _is_ours(self) -> bool:
        if self._lock is not None:
            return True
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True
