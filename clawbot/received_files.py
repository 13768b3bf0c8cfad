"""Files that people send: loaded by the adapter's process, written by the worker's.

A file stands in the work directory of its session under a name that the message alone decides, so
that the prompt can name it before it is written, and a resumed turn writes it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from clawbot.errors import NotLoaded
from clawbot.messages import Attachment
from clawbot.ports import Clock, Downloader, Store
from clawbot.store import blobs
from clawbot.tools.files import open_root

log = structlog.get_logger(__name__)

FOLDER = "received"
MOST_FILES = 10
_NAME_BYTES = 120
_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]+")
_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

LOADING_S = 12.0


def path_of(attachment: Attachment) -> str:
    """Where the file stands, relative to the session's first work directory."""
    stem, dot, suffix = _UNFIT.sub("_", attachment.name).strip(". ").rpartition(".")
    suffix = f"{dot}{suffix}"[:20] if stem else suffix
    room = _NAME_BYTES - len(suffix.encode("utf-8", "replace"))
    stem = stem.encode("utf-8", "replace")[: max(room, 0)].decode(errors="ignore")
    return f"{FOLDER}/{attachment.blob[:8]}-{(stem + suffix) or attachment.kind}"


async def load(
    store: Store,
    clock: Clock,
    downloader: Downloader,
    attachments: Sequence[Attachment],
    *,
    max_bytes: int,
) -> tuple[Attachment, ...]:
    """The attachments with what became of them: each is in the store, or says why it is not."""
    loaded: list[Attachment] = []
    for number, attachment in enumerate(attachments):
        if number >= MOST_FILES:
            problem = f"only the first {MOST_FILES} files of a message are loaded"
            loaded.append(replace(attachment, problem=problem))
            continue
        try:
            async with asyncio.timeout(LOADING_S):
                data = await downloader.download(attachment, max_bytes)
        except TimeoutError:
            loaded.append(replace(attachment, problem="it could not be loaded in time"))
            continue
        except NotLoaded as error:
            log.info("file_not_loaded", reason=str(error))
            loaded.append(replace(attachment, problem=str(error)))
            continue
        digest = await blobs.keep(store, data, clock.now_ms())
        loaded.append(replace(attachment, blob=digest, size_bytes=len(data)))
    return tuple(loaded)


async def place(store: Store, attachments: Sequence[Attachment], work_dir: Path) -> None:
    """Write the files into a work directory, where they are not there yet."""
    for attachment in attachments:
        path = work_dir / path_of(attachment)
        if not attachment.blob or await asyncio.to_thread(os.path.lexists, path):
            continue
        data = await blobs.fetch(store, attachment.blob)
        if data is None:
            log.warning("file_gone", blob=attachment.blob)
            continue
        try:
            await asyncio.to_thread(_write, work_dir, path.name, data)
        except OSError as error:
            log.warning("file_not_written", error=str(error))


def _write(work_dir: Path, name: str, data: bytes) -> None:
    """Write a file as a whole. What runs in the directory must not lead us out of it by a link."""
    root = open_root(work_dir)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, 0o700, dir_fd=root)
        folder = os.open(FOLDER, _OPEN_DIR, dir_fd=root)
        try:
            fresh = f".{os.urandom(8).hex()}.part"
            with os.fdopen(os.open(fresh, _CREATE, 0o600, dir_fd=folder), "wb") as file:
                file.write(data)
            os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)
    finally:
        os.close(root)
