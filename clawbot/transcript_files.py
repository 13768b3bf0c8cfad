"""The files of readable transcripts: `<digest of the key>/<epoch>.jsonl`, appended to and checked.

They are copies for people; the truth is the store, so nothing here is synced, and a damaged file is
made again. The lines are those of `clawbot.session_file`. Everything blocks on the disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from clawbot.session_file import Damage, Header, Record, entry_line, header_line, read_session
from clawbot.session_key import SessionKey

SUFFIX = ".jsonl"
FRESH = ".new"
TAIL_BYTES = 64 << 10
CHECKED_BYTES = 64 << 20
"""Of a longer file only the end is checked before it is appended to."""


class DamagedTranscript(Exception):
    """A file does not hold what was written to it."""


@dataclass(slots=True, kw_only=True)
class Written:
    """How far the files of a session are. sizes: of the files that were checked, by epoch."""

    seq: int
    epoch: int
    sizes: dict[int, int]


def epochs_of(folder: Path) -> list[int]:
    """The epochs that have a file, in order."""
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
    return sorted(
        int(name.removesuffix(SUFFIX))
        for name in names
        if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdigit()
    )


def find_written(folder: Path) -> Written:
    """How far the files of a session are, from their last lines. Raise DamagedTranscript."""
    epochs = epochs_of(folder)
    newest = Written(seq=0, epoch=0, sizes={})
    for epoch in epochs[-3:]:  # an older epoch may hold the newest line: of a turn that was stopped
        seq = last_seq(_path(folder, epoch))
        newest.seq = max(seq, newest.seq)
        newest.epoch = epoch
    return newest


def last_seq(path: Path) -> int:
    """The number of the last entry in a file, however long it is; 0 = none yet.

    Raise DamagedTranscript.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        length = TAIL_BYTES
        while True:
            start = max(0, size - length)
            file.seek(start)
            raw = file.read(size - start)
            if not raw.endswith(b"\n"):
                raise DamagedTranscript(f"{path.name}: its last line is torn")
            begin = raw.rfind(b"\n", 0, -1) + 1
            if begin or not start:
                return _seq_of(raw[begin:], path)
            length *= 8


def _seq_of(line: bytes, path: Path) -> int:
    damage = Damage()
    found = list(read_session(BytesIO(line), damage))
    if damage.skipped or len(found) != 1:
        raise DamagedTranscript(f"{path.name}: its last line cannot be read")
    return found[0].entry.seq if isinstance(found[0], Record) else 0


def append(folder: Path, key: SessionKey, records: Sequence[Record], written: Written) -> None:
    """Add entries in the order of their numbers. Raise DamagedTranscript: then make all anew."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for epoch in dict.fromkeys(record.epoch for record in records):
        path = _path(folder, epoch)
        lines = [entry_line(epoch, one.entry) for one in records if one.epoch == epoch]
        if epoch not in written.sizes:
            written.sizes[epoch] = _checked_size(path)
        with path.open("ab") as file:
            if file.tell() != written.sizes[epoch]:
                raise DamagedTranscript(f"{path.name}: somebody else changed it")
            if not written.sizes[epoch]:
                lines.insert(0, header_line(Header(key=str(key), epoch=epoch)))
            file.writelines(lines)
            file.flush()
            written.sizes[epoch] = file.tell()
    written.seq = max(written.seq, records[-1].entry.seq)
    written.epoch = max(written.epoch, *(record.epoch for record in records))


def _checked_size(path: Path) -> int:
    """The size of a file that is whole; 0 if there is none."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    if not size:
        return 0
    last_seq(path)
    if size > CHECKED_BYTES:
        return size
    damage = Damage()
    newest = 0
    with path.open("rb") as file:
        for one in read_session(file, damage):
            seq = one.entry.seq if isinstance(one, Record) else 0
            if seq < newest:
                raise DamagedTranscript(f"{path.name}: its lines are out of order")
            newest = seq
    if damage.skipped:
        raise DamagedTranscript(f"{path.name}: line {damage.first_line} cannot be read")
    return size


def begin_rewrite(folder: Path) -> Path:
    """A fresh folder beside that of a session, to make all its files anew in."""
    fresh = folder.with_name(f"{folder.name}{FRESH}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    return fresh


def end_rewrite(fresh: Path, folder: Path) -> None:
    """Put the new files in the place of the old ones."""
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def remove(*folders: Path) -> None:
    """Remove what there is of a session."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def remove_before(folder: Path, first_epoch: int) -> None:
    """Remove the files of earlier epochs."""
    for epoch in epochs_of(folder):
        if epoch < first_epoch:
            _path(folder, epoch).unlink(missing_ok=True)


def names_in(parent: Path) -> list[str]:
    """The folders of sessions, and leftovers of rewriting."""
    try:
        return [entry.name for entry in os.scandir(parent)]
    except FileNotFoundError:
        return []


def _path(folder: Path, epoch: int) -> Path:
    return folder / f"{epoch:06d}{SUFFIX}"
