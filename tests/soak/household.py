"""What a daemon under load holds: its processes and their memory, its files, its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import func, select

from clawbot.ports import Transaction
from clawbot.store.schema import inbox, outbox, processes, sessions, turns

KB = 1024
LOADING_LOOKS = 10
TABLES = (inbox, outbox, turns, processes)


@dataclass(slots=True)
class Memory:
    """Resident bytes of one kind of process. grown: the most that a single one of them grew by,
    once it had loaded all.
    """

    first: int = 0
    last: int = 0
    most: int = 0
    grown: int = 0
    _looks: Counter[int] = field(default_factory=Counter)
    _began: dict[int, int] = field(default_factory=dict)

    def note(self, pid: int, resident: int) -> None:
        """Look at a process; the first looks find one that loads."""
        self._looks[pid] += 1
        if self._looks[pid] <= LOADING_LOOKS:
            return
        self._began.setdefault(pid, resident)
        self.first = self.first or resident
        self.last = resident
        self.most = max(self.most, resident)
        self.grown = max(self.grown, resident - self._began[pid])


def family(pid: int) -> Iterator[tuple[int, str]]:
    """A daemon and its children: the id and the part of each."""
    yield pid, "daemon"
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in map(int, listed.split()):
        words = _command(child)
        if "clawbot" in words:
            start = words.index("clawbot") + 1
            yield child, " ".join(words[start : words.index("--config")])


def of_config(config: Path) -> list[int]:
    """Every process on this machine that runs with a config."""
    found = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    return [pid for pid in found if str(config) in _command(pid)]


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def resident_bytes(pid: int) -> int | None:
    """What a process holds in memory; None when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    held = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(held[0]) * KB if held else None


def rows_of(tx: Transaction) -> Mapping[str, int]:
    """How many rows the tables have that grow with messages, and how many sessions are owned."""
    counts = {
        table.name: tx.conn.execute(select(func.count()).select_from(table)).scalar_one()
        for table in TABLES
    }
    owned = select(func.count()).where(sessions.c.owner.is_not(None))
    return {**counts, "owned sessions": tx.conn.execute(owned).scalar_one()}
