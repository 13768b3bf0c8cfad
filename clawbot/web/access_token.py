"""The page's token: given by the admin, or made once and kept in the state dir. Blocks on the disk.

Whoever knows it may use the page, so the file is its owner's alone.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pydantic import SecretStr

from clawbot.errors import StartupError, startup_error_of

TOKEN_FILE = "web.token"  # noqa: S105 the name of a file


def page_token(state_dir: Path, configured: SecretStr | None) -> str:
    """The token of `web.token`, else the one that is kept. Raise StartupError."""
    if configured is not None and configured.get_secret_value():
        return configured.get_secret_value()
    path = state_dir / TOKEN_FILE
    try:
        return _kept(path) or _make(path)
    except OSError as error:
        raise startup_error_of(error)(
            f"web.token: {path} cannot be read or made: {error.strerror}; give the directory to "
            "clawbot's user, or set web.token"
        ) from error


def _kept(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            return file.read().strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise StartupError(f"web.token: {path} holds no token; remove the file") from error


def _make(path: Path) -> str:
    """Appear whole or not at all, so that two processes that start at once agree on one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write_private(draft, secrets.token_urlsafe(32))
        if path.exists():  # it was found empty: the disk was full when it was made
            path.unlink()
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    return _kept(path)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
