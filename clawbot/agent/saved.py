"""Texts that a request or a history holds only in part, kept whole where `read_file` finds them.

One directory a session, below the state directory and not in the work dir, which a chat's threads
and tasks share: another session cannot read it. `read_file` takes lines, so longer ones are broken
in the copy. What is kept is bounded, the oldest goes first; a path without its file is an ordinary
"no such file" to the model. On several hosts each has those texts alone that its own turns saved.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from clawbot.agent.masks import FOLDER
from clawbot.session_key import SessionKey

log = structlog.get_logger(__name__)

LONGEST_LINE = 2_000
KEPT_BYTES = 256 << 20


def saved_dir(state_dir: Path, session: SessionKey) -> Path:
    """A session's directory; paths of saved texts are relative to it."""
    return state_dir / "saved" / session.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTexts:
    """The saved texts of one session, below `root`."""

    root: Path
    kept_bytes: int = KEPT_BYTES

    async def keep(self, texts: Mapping[str, str]) -> bool:
        """Write texts by their paths, those that are not there yet. False if the disk refuses."""
        if not texts:
            return True
        try:
            await asyncio.to_thread(self._keep, texts)
        except OSError as error:
            log.warning("text_not_saved", error=str(error))
            return False
        return True

    def remove(self) -> None:
        """Forget all of them, with the session. Blocks on the disk."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _keep(self, texts: Mapping[str, str]) -> None:
        folder = self.root / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = [path for path in texts if not (self.root / path).exists()]
        for path in fresh:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", errors="replace", newline="", dir=folder, delete=False
            ) as file:
                file.writelines(_lines(texts[path]))
            Path(file.name).replace(self.root / path)
        if fresh:
            self._prune(folder, {Path(path).name for path in texts})

    def _prune(self, folder: Path, needed: set[str]) -> None:
        with os.scandir(folder) as found:
            files = [
                (entry.stat().st_mtime_ns, entry.stat().st_size, entry.name) for entry in found
            ]
        left = sum(size for _, size, _ in files) - self.kept_bytes
        for _, size, name in sorted(files):
            if left <= 0:
                break
            if name not in needed:
                (folder / name).unlink(missing_ok=True)
                left -= size


def _lines(text: str) -> Iterator[str]:
    """The text in lines, long ones broken; `splitlines` would hold up all threads meanwhile."""
    start = 0
    while start < len(text):
        end = text.find("\n", start, start + LONGEST_LINE) + 1
        if end:
            yield text[start:end]
        else:
            end = start + LONGEST_LINE
            piece = text[start:end]
            yield piece if end >= len(text) or text[end] == "\n" else piece + "\n"
        start = end
