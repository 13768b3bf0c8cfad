"""How a command reaches the store of a state directory, whether or not a daemon runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from clawbot.config import Config, load_config
from clawbot.errors import StartupError
from clawbot.ports import Store

T = TypeVar("T")


def existing_state(path: Path) -> Config:
    """The config of a daemon that ran before. Raise ConfigError or StartupError."""
    config = load_config(path)
    if not config.state_dir.is_dir():
        raise StartupError(f"state_dir {config.state_dir}: does not exist; clawbot never ran here")
    return config


def with_store(path: Path, job: Callable[[Config, Store], Awaitable[T]]) -> T:
    """Do something with the store of a config, and close it."""
    config = existing_state(path)

    async def run() -> T:
        from clawbot.parts import open_store

        store = await open_store(config)
        try:
            return await job(config, store)
        finally:
            await store.close()

    return asyncio.run(run())
