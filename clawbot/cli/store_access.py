"""How a command reaches the store of a state directory, whether or not a daemon runs on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from clawbot.config import Config, load_config
from clawbot.config_check import ConfigChecker
from clawbot.config_sections import OFFLINE_MODEL
from clawbot.errors import ConfigError, StartupError
from clawbot.ports import Store
from clawbot.yaml_source import read_document

T = TypeVar("T")

_OF_STATE = ("state_dir", "database", "database_file")


def existing_state(path: Path) -> Config:
    """The config of a daemon that ran before. Raise ConfigError or StartupError."""
    config = load_config(path)
    if not config.state_dir.is_dir():
        raise StartupError(f"state_dir {config.state_dir}: does not exist; clawbot never ran here")
    return config


def state_despite(path: Path, error: ConfigError) -> Config:
    """Where a config keeps its state although the file cannot be used otherwise; the rest of it is
    as if it were left out. Raise the error where that cannot be read either.
    """
    try:
        document = read_document(path.read_text(encoding="utf-8"), os.environ)
    except (OSError, UnicodeDecodeError):
        raise error from None
    data = {name: document.data[name] for name in _OF_STATE if name in document.data}
    checker = ConfigChecker(document, path.absolute().parent)
    config = checker.check(Config, {**data, "model": OFFLINE_MODEL}, ())
    if config is None or not config.state_dir.is_dir():
        raise error
    return config


def with_store(path: Path, job: Callable[[Config, Store], Awaitable[T]]) -> T:
    """Do something with the store of a config file, and close it."""
    return with_state(existing_state(path), job)


def with_state(config: Config, job: Callable[[Config, Store], Awaitable[T]]) -> T:
    """Do something with the store of a config, and close it."""

    async def run() -> T:
        from clawbot.parts import open_store

        store = await open_store(config)
        try:
            return await job(config, store)
        finally:
            await store.close()

    return asyncio.run(run())
