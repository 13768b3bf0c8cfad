"""`clawbot doctor` and `clawbot status`: what they say of the sandbox and of what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.flow.daemon import write_config
from tests.process.commands import start


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = write_config(tmp_path, model_url="http://127.0.0.1:9", slack="enabled: false")
    text = path.read_text(encoding="utf-8").partition("channels:")[0]
    path.write_text(text, encoding="utf-8")
    return path


def add_to(config: Path, text: str) -> None:
    config.write_text(f"{config.read_text()}\n{text}\n")


async def run(
    config: Path, command: str, environ: Mapping[str, str] | None = None
) -> tuple[int, str]:
    started = await start(config, command, environ=environ)
    return await started.ended(), started.text()


async def test_before_the_first_start_nothing_is_bad(config: Path) -> None:
    code, text = await run(config, "doctor")
    assert code == 0, text
    assert "state: " in text
    assert "is made at the first start" in text
    assert "sandbox: bubblewrap works; commands run without network" in text


async def test_what_is_wrong_is_named_with_what_to_do(config: Path) -> None:
    state = config.parent / "state"
    state.mkdir(mode=0o755)
    (state / "clawbot.db").write_text("no database, but text that is long enough to be read" * 20)
    code, text = await run(config, "doctor", {"PATH": "/nonexistent"})
    assert code == 1, text
    assert f"chmod 700 {state}" in text
    assert "bad   database: " in text
    assert "bash is not offered: bubblewrap is not installed; install Debian's package" in text


async def test_no_sandbox_is_loud_in_doctor_and_status(config: Path) -> None:
    (config.parent / "state").mkdir(mode=0o700)
    add_to(config, "tools: {sandbox: none}")
    code, text = await run(config, "doctor")
    assert code == 1, text
    assert "sandbox: none: shell commands run as this user and can read all secrets" in text
    code, text = await run(config, "status")
    assert code == 0, text
    assert "WITHOUT A SANDBOX" in text
