"""The state directory: private, writable, and held by one daemon at a time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clawbot.errors import StartupError
from clawbot.state_dir import PRIVATE_MARK, hold_state_dir, holder_of, prepare_state_dir


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    prepare_state_dir(path)
    prepare_state_dir(path)
    assert path.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in path.iterdir()] == [PRIVATE_MARK]


@pytest.mark.parametrize("place", ["file/state", "file"])
def test_one_that_cannot_be_written_is_refused_by_name(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match=f"state_dir {re.escape(str(tmp_path / place))}: cannot"):
        prepare_state_dir(tmp_path / place)


def test_a_read_only_file_system_is_refused() -> None:
    # /proc takes no file from anybody, root included.
    with pytest.raises(StartupError, match="state_dir /proc: cannot be written"):
        prepare_state_dir(Path("/proc"))


def test_a_second_daemon_is_told_who_holds_it(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    with hold_state_dir(tmp_path):
        assert holder_of(tmp_path) == os.getpid()
        with (
            pytest.raises(StartupError, match=rf"another clawbot run \(pid {os.getpid()}\)"),
            hold_state_dir(tmp_path),
        ):
            pass
    assert holder_of(tmp_path) is None
    with hold_state_dir(tmp_path):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time; from clawbot.state_dir import hold_state_dir\n"
        "with hold_state_dir(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert holder_of(tmp_path) == holder.pid
        holder.kill()
        holder.wait()
    assert holder_of(tmp_path) is None
