"""The escape suite: what a shell command can reach, and that it ends with all that it started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.tools import sandbox as sandbox_module
from clawbot.tools.sandbox import SandboxRules, find_sandbox
from tests.unit.tools.ground import Shell, shell_in, until_processes


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with shell_in(tmp_path) as shell:
        yield shell


async def test_a3_a_command_works_in_its_sessions_directory(shell: Shell) -> None:
    assert await shell.run("pwd") == (f"{shell.work}\n", False)
    assert await shell.run("mkdir a && echo hello > a/b && cat a/b") == ("hello\n", False)
    assert (shell.work / "a" / "b").read_text() == "hello\n"
    assert await shell.run("true") == ("(no output)", False)


@pytest.mark.parametrize(
    "path",
    [
        *("../front/README.md", "STATE/work/front/README.md", "STATE/clawbot.db", "CONFIG"),
        *("/etc/shadow", "/root", "/home", "/var", "/proc/1/root/etc/shadow", "/sys", "/boot"),
    ],
)
async def test_a8_what_is_not_the_sessions_is_not_there(shell: Shell, path: str) -> None:
    path = path.replace("STATE", str(shell.state)).replace("CONFIG", f"{shell.folder}/clawbot.yaml")
    (shell.work / "link").symlink_to(path)
    for name in (path, "link"):
        text, is_error = await shell.run(f"cat {name} || ls {name}/* | grep .")
        assert is_error
        assert "secret" not in text


async def test_a8_a_link_or_hard_link_made_inside_leads_nowhere(shell: Shell) -> None:
    front = shell.state / "work" / "front" / "README.md"
    text, is_error = await shell.run(f"ln -s {front} x; cat x; ln {front} y")
    assert is_error
    assert "secret" not in text
    assert not (shell.work / "y").exists()


async def test_a8_a_directory_below_one_that_others_share_cannot_be_swapped_for_a_link(
    shell: Shell,
) -> None:
    """Whoever may write above a session's directory cannot have its commands see another place."""
    team, docs = shell.folder / "team", shell.folder / "team" / "docs"
    docs.mkdir(parents=True)
    front = shell.state / "work" / "front"
    text, is_error = await shell.run(f"rm -r docs && ln -s {front} docs && ls -l docs", team)
    assert not is_error, text
    for dirs in ((docs,), (team, docs)):
        text, is_error = await shell.run(f"cat {docs}/README.md; echo x > {docs}/x", *dirs)
        assert is_error
        assert "has become a link" in text
        assert "secret" not in text
    assert not (front / "x").exists()


async def test_a8_a_command_has_only_what_is_its_own(shell: Shell) -> None:
    """No open files of the daemon, no privileges, no sockets, nothing that another one left."""
    text, _ = await shell.run("ls -l /proc/self/fd | grep -c -e /db -e socket: -e /state; true")
    assert text.strip() == "0"
    text, _ = await shell.run("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")
    assert [int(line.split()[1], 16) for line in text.splitlines()] == [0, 0, 1]
    await shell.run("echo left > /tmp/left; echo left > /dev/shm/left")
    text, _ = await shell.run("cat /tmp/* /dev/shm/*")
    assert "left\n" not in text
    for command in ("ls /run/*", "ls /var/run/*", "dmesg"):
        _, is_error = await shell.run(command)
        assert is_error, command


async def test_a8_no_setting_of_the_kernel_can_be_written(shell: Shell) -> None:
    """Also where the daemon runs as root. Each is written with what it holds already."""
    for name in ("kernel/core_pattern", "vm/swappiness", "kernel/hostname"):
        path = f"/proc/sys/{name}"
        text, is_error = await shell.run(f'value=$(cat {path}) && echo "$value" > {path}')
        assert is_error, text
    text, _ = await shell.run("find /proc -maxdepth 2 -perm -u+w -type f -not -path '/proc/[0-9]*'")
    for path in text.split():
        if path.startswith("/proc/"):
            text, is_error = await shell.run(f"test -e {path} && : >> {path}")
            assert is_error, path
    text, _ = await shell.run("cat /proc/self/oom_score_adj")
    assert text.split() == ["1000"]


async def test_nothing_outside_can_be_written(shell: Shell) -> None:
    for path in ("/usr/bin/x", "/etc/passwd", "/bin/x", "/x", f"{shell.state}/x", "../x"):
        await shell.run(f"echo x >> {path}; echo x > {path}")
    assert not await asyncio.to_thread(Path("/usr/bin/x").exists)
    assert not (shell.state / "x").exists()
    assert sorted(one.name for one in (shell.state / "work").iterdir()) == ["back", "front"]
    await shell.run(f"rm -rf --no-preserve-root / {shell.state}")
    assert (shell.state / "clawbot.db").read_text() == "the store's secret"


async def test_state_and_config_are_hidden_also_inside_of_a_work_directory(shell: Shell) -> None:
    (shell.folder / "code.py").write_text("print(1)")
    command = "cat code.py; cat clawbot.yaml; cat state/clawbot.db; ls state; ls -A state/work"
    text, _ = await shell.run(command, shell.folder)
    assert "print(1)" in text
    assert "secret" not in text
    # A directory of the session below the hidden one is there all the same.
    text, _ = await shell.run("ls state/work; touch state/work/back/new", shell.folder, shell.work)
    assert text == "back\n"
    assert (shell.work / "new").exists()


async def test_a11_both_of_two_directories_can_be_written(shell: Shell, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    text, _ = await shell.run(f"pwd; touch one {more}/two", shell.work, more)
    assert text == f"{shell.work}\n"
    assert (shell.work / "one").exists()
    assert (more / "two").exists()


async def test_secrets_of_the_environment_are_not_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAWBOT_API_KEY", "env-secret")
    text, _ = await shell.run("env; cat /proc/*/environ | tr '\\0' '\\n'; set")
    assert "PATH=" in text
    assert "env-secret" not in text
    assert "CLAWBOT" not in text
    text, _ = await shell.unconfined(is_owner=True).run("env")
    assert "env-secret" not in text


async def test_other_processes_are_neither_seen_nor_killed(shell: Shell) -> None:
    text, _ = await shell.run("ls -d /proc/[0-9]* | wc -l; kill -9 -1; kill -9 $PPID; echo lives")
    assert int(text.split()[0]) < 10
    text, _ = await shell.run(f"kill -0 {os.getpid()} 2>&1; cat /proc/{os.getpid()}/cmdline 2>&1")
    assert "No such" in text


async def test_there_is_no_network_unless_it_is_allowed(shell: Shell) -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"
        text, is_error = await shell.run(command)
        assert is_error
        assert "connected" not in text
        assert await shell.with_rules(network=True).run(command) == ("connected\n", False)
    text, _ = await shell.run("cat /proc/net/dev")
    assert [line.split(":")[0].strip() for line in text.splitlines()[2:]] == ["lo"]


async def test_no_further_namespaces_mounts_or_devices(shell: Shell) -> None:
    for command in (
        "unshare -Ur true",
        "mount -t tmpfs x .",
        "mknod d b 8 0",
        "chroot / true",
        "test -e /dev/sda || test -e /dev/vda || test -e /dev/mem",
    ):
        _, is_error = await shell.run(command)
        assert is_error, command


async def test_what_a_command_leaves_running_ends_with_it(shell: Shell) -> None:
    mark = uuid.uuid4().hex
    for one in (shell, shell.unconfined(is_owner=True)):
        text, is_error = await one.run(f"bash -c 'sleep 300; : {mark}' & echo left; disown")
        assert (text, is_error) == ("left\n", False)
        await until_processes(mark, run=False)
    command = f"setsid nohup bash -c 'sleep 300; : {mark}' >/dev/null 2>&1 & sleep 0.1"
    await shell.run(command)
    await until_processes(mark, run=False)


async def test_h2_a_time_out_ends_the_whole_group_and_keeps_the_output(shell: Shell) -> None:
    mark = uuid.uuid4().hex
    for one in (shell, shell.unconfined(is_owner=True)):
        command = f"echo before; bash -c 'sleep 300; : {mark}'; echo after"
        text, is_error = await one.run(command, timeout_s=0.5)
        assert is_error
        assert text.startswith("before\n[ended after 0.5 s")
        await until_processes(mark, run=False)
    text, _ = await shell.run("sleep 300", most_s=0.2, timeout_s=300)
    assert "ended after 0.2 s" in text


async def test_a_cancelled_call_ends_the_whole_group(shell: Shell) -> None:
    for one in (shell, shell.unconfined(is_owner=True)):
        mark = uuid.uuid4().hex
        task = asyncio.create_task(one.run(f"bash -c 'sleep 300; : {mark}'; :"))
        await until_processes(mark, run=True)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_processes(mark, run=False)


@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
async def test_a_command_ends_with_a_worker_that_is_killed(tmp_path: Path, kind: str) -> None:
    mark = uuid.uuid4().hex
    script = f"""
import asyncio
from pathlib import Path
from clawbot.tools import commands
from clawbot.tools.sandbox import SandboxRules, Unconfined, environment, find_sandbox
async def work():
    rules = SandboxRules()
    sandbox = Unconfined(rules=rules) if {kind!r} == "none" else await find_sandbox(rules)
    line = sandbox.command_line([Path({str(tmp_path)!r})], "sleep 300; : {mark}; :")
    await commands.run(line, cwd=None, env=environment(), timeout_s=300, most_bytes=100)
asyncio.run(work())
"""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await until_processes(f": {mark}", run=True)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    await until_processes(mark, run=False)


async def test_h2_an_exit_code_is_an_error_that_can_be_seen(shell: Shell) -> None:
    assert await shell.run("echo out; echo err >&2; exit 3") == ("out\nerr\n[exit code 3]", True)
    text, _ = await shell.run("kill -SEGV $$")
    assert text.endswith("[exit code 139: killed by SIGSEGV]")
    text, _ = await shell.run("nonsense-command")
    assert "nonsense-command: command not found" in text
    assert text.endswith("[exit code 127]")


async def test_h2_b9_output_is_bounded_in_memory_and_keeps_its_ends(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawbot.tools.bash.OUTPUT_BYTES", 200_000)
    text, is_error = await shell.run("echo first; head -c 5000000 /dev/zero | tr '\\0' x; exit 1")
    assert is_error
    assert text.startswith("first\nxxx")
    assert text.endswith("[exit code 1]")
    assert "of 5,000,006 bytes are left out here" in text
    assert len(text) < 300_000
    text, _ = await shell.run("head -c 1000 /dev/urandom; printf '\\0'; head -c 9000 /dev/zero")
    assert text.startswith("(binary output of 10,001 bytes)")


async def test_a_command_cannot_read_what_people_type(shell: Shell) -> None:
    assert await shell.run("cat; tty") == ("not a tty\n[exit code 1]", True)


async def test_memory_and_files_are_bounded(shell: Shell) -> None:
    small = shell.with_rules(memory_bytes=200 << 20, file_bytes=1 << 20, tmp_bytes=1 << 20)
    text, is_error = await small.run("python3 -c 'x = b\"1\" * (400 << 20); print(len(x))'")
    assert is_error
    assert "MemoryError" in text
    await small.run("head -c 5000000 /dev/zero > big")
    assert (small.work / "big").stat().st_size <= 1 << 20
    text, is_error = await small.run("head -c 900000 /dev/zero > /tmp/a; cat /tmp/a > /tmp/b")
    assert is_error
    assert "No space left" in text


def test_a_fork_bomb_is_bounded_for_an_ordinary_user() -> None:
    """As root the kernel counts no processes: the command is started as another user then."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o777)
        found = asyncio.run(find_sandbox(SandboxRules(processes=30)))
        assert not isinstance(found, str), found
        command = "for n in $(seq 60); do sleep 20 & done 2>&1; jobs -p | wc -l; kill $(jobs -p)"
        ran = subprocess.run(
            found.command_line([folder], command),
            capture_output=True,
            text=True,
            timeout=60,
            env={},
            user=65534 if os.geteuid() == 0 else None,
            group=65534 if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
            check=False,
        )
    finally:
        shutil.rmtree(folder)
    assert "Resource temporarily unavailable" in ran.stdout + ran.stderr


async def test_without_bubblewrap_there_is_no_sandbox_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox_module.shutil, "which", lambda _name: None)
    assert "not installed" in str(await find_sandbox(SandboxRules()))
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sandbox_module.shutil, "which", lambda _name: str(broken))
    said = str(await find_sandbox(SandboxRules()))
    assert "No permissions to create new namespace" in said
    assert "user namespaces must be allowed" in said


async def test_without_a_sandbox_only_owners_have_commands_run(shell: Shell) -> None:
    text, is_error = await shell.unconfined(is_owner=False).run("echo x > made")
    assert is_error
    assert "only owners" in text
    assert not (shell.work / "made").exists()
    assert await shell.unconfined(is_owner=True).run("pwd") == (f"{shell.work}\n", False)


async def test_a_directory_that_cannot_be_used_is_refused(shell: Shell, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "does not exist"), (Path("/"), "whole file system")):
        text, is_error = await shell.run("ls", path)
        assert is_error
        assert words in text
