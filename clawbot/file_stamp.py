"""Noticing that a file has changed, without reading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStamp:
    """What a file is known again by: also one that was put in its place, or got its old time back
    after it was written.
    """

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


def stamp_of(path: Path) -> FileStamp:
    """The stamp of a file as it is now. Raise OSError. Blocks on the disk."""
    stat = path.stat()
    return FileStamp(
        device=stat.st_dev,
        inode=stat.st_ino,
        size=stat.st_size,
        modified_ns=stat.st_mtime_ns,
        changed_ns=stat.st_ctime_ns,
    )
