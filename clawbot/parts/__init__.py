"""What the daemon is made of: a store, and parts that share it; each is wired in its own module.

A process imports only what its own part needs (an adapter no model library, a worker no platform
SDK), and imports it in a thread: some of these take seconds.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from sqlalchemy.exc import OperationalError

from clawbot.channels import load
from clawbot.config import Config
from clawbot.errors import StoreAway
from clawbot.ports import Part, Store
from clawbot.state_dir import prepare_state_dir
from clawbot.store import processes
from clawbot.store.doorbell import bell_folder
from clawbot.store.engine import open_sqlite_engine, open_sqlite_store
from clawbot.store.migrate import upgrade

STORE_FILE = "clawbot.db"


async def open_store(config: Config) -> Store:
    """Open the store that the config names, its schema up to date.

    Raise StartupError; StoreAway where it may be there again by itself.
    """
    try:
        return await _open_store(config)
    except OperationalError as error:  # it was there, and went away while it was made ready
        reason = str(error.orig or error).partition("\n")[0]
        raise StoreAway(f"store: {reason}; see that it can be reached and written") from error


async def _open_store(config: Config) -> Store:
    if config.database is not None:
        await asyncio.to_thread(prepare_state_dir, config.state_dir)
        opens = await asyncio.to_thread(load, "clawbot.store.postgres:open_upgraded_store")
        store: Store = await opens(config.database.get_secret_value())
        return store
    path = config.state_dir / STORE_FILE
    bells = await asyncio.to_thread(_prepare_store, config.state_dir, path)
    return await open_sqlite_store(path, bells, uuid.uuid4().hex)


def _prepare_store(state_dir: Path, path: Path) -> Path:
    prepare_state_dir(state_dir)
    engine = open_sqlite_engine(path)
    try:
        upgrade(engine)
    finally:
        engine.dispose()
    return bell_folder(state_dir)


async def release_process(store: Store, process_id: str) -> None:
    """Free at once what an ended process owned."""
    await store.write(partial(processes.release, process_id=process_id))


def worker_part(config: Config, store: Store, process_id: str) -> AbstractAsyncContextManager[Part]:
    """A worker."""
    return _open("clawbot.parts.worker:open_worker", config, store, process_id)


def adapter_part(
    config: Config, store: Store, process_id: str, channel: str
) -> AbstractAsyncContextManager[Part]:
    """The adapter of a channel."""
    return _open("clawbot.parts.adapter:open_adapter_host", config, store, process_id, channel)


def web_part(config: Config, store: Store, process_id: str) -> AbstractAsyncContextManager[Part]:
    """The web page."""
    return _open("clawbot.parts.web:open_web", config, store, process_id)


@asynccontextmanager
async def _open(reference: str, *arguments: object) -> AsyncIterator[Part]:
    opens = await asyncio.to_thread(load, reference)
    async with opens(*arguments) as part:
        yield part
