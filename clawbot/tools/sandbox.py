"""Where shell commands run: in a bubblewrap sandbox, or, where an admin insists, in none.

In the sandbox only the session's directories can be written; the system's programs and libraries
can be read; everything else is not there: no home, no state directory, no configuration, no other
process, no environment of ours, and no network unless it is allowed. A command ends with the
process that started it, and so does everything that it has started.

Command lines are made by plain functions; `find_sandbox` tries one out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clawbot.errors import ToolError
from clawbot.tools import commands
from clawbot.tools.files import LINKED_ROOT

PROBE_S = 10.0
SHELL = "/bin/bash"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What programs need to know of the system; not all of /etc, which holds keys and passwords.
_ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "ssl", "pki", "group", "passwd"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf"),
    *("hosts", "resolv.conf", "protocols", "services", "profile", "bash.bashrc", "gitconfig"),
)
# The limits hold for the command and all that it starts.
_LIMITED = (
    "ulimit -c 0; ulimit -u {processes}; ulimit -d {memory_kb}; ulimit -f {file_kb}; "
    'exec {shell} -c "$1"'
)
# Commands go first when memory runs out. Said before the sandbox is made: in it /proc is closed.
_EASILY = 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$@"'
_FIRST_TO_GO = (SHELL, "-c", _EASILY, SHELL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRules:
    """What commands may do and use; see the config section `tools`. hidden: what must not be seen
    even where it lies in a work directory.
    """

    network: bool = False
    read_only_dirs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    processes: int = 256
    memory_bytes: int = 4 << 30
    file_bytes: int = 1 << 30
    tmp_bytes: int = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubblewrap:
    """Runs commands in a sandbox. program: where bubblewrap is. flags: those that work here."""

    program: str
    flags: tuple[str, ...]
    rules: SandboxRules

    is_confined = True

    def command_line(self, work_dirs: Sequence[Path], command: str) -> list[str]:
        """The whole command line. Raise ToolError when a work directory cannot be used."""
        rules = self.rules
        mounts = [*_roots(work_dirs, rules), *_system(rules)]
        # A directory before what lies in it.
        mounts.sort(key=lambda mount: len(Path(mount[-1]).parts))
        line = [
            *_FIRST_TO_GO,
            *(self.program, *self.flags, "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
            *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent"),
            *("--new-session", "--cap-drop", "ALL", "--clearenv"),
        ]
        if not rules.network:
            line.append("--unshare-net")
        for name, value in environment().items():
            line += ["--setenv", name, value]
        for mount in mounts:
            line += mount
        begins = str(work_dirs[0]) if work_dirs else "/"
        return [*line, "--chdir", begins, "--", *_shell(rules, command)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfined:
    """Runs commands as the daemon's user, who can read its state and its secrets."""

    rules: SandboxRules

    is_confined = False

    def command_line(self, work_dirs: Sequence[Path], command: str) -> list[str]:
        """The whole command line; the caller starts it in the first work directory."""
        if not work_dirs[0].is_dir():
            raise ToolError(_missing(work_dirs[0]))
        line = [*_FIRST_TO_GO, *_shell(self.rules, command)]
        setpriv = shutil.which("setpriv")
        # So that it does not outlive a killed worker; what it has started may.
        return [setpriv, "--pdeathsig", "KILL", *line] if setpriv else line


Sandbox = Bubblewrap | Unconfined


def environment() -> dict[str, str]:
    """The environment of a command: nothing of ours."""
    return {
        "PATH": _PATH,
        "HOME": "/tmp",  # noqa: S108  the sandbox's own
        "TMPDIR": "/tmp",  # noqa: S108  same
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }


async def find_sandbox(rules: SandboxRules) -> Bubblewrap | str:
    """A sandbox that works here, or why there is none and what to do."""
    program = await asyncio.to_thread(shutil.which, "bwrap")
    if program is None:
        return "bubblewrap is not installed; install Debian's package bubblewrap"
    said = ""
    # The first closes one more door, but not every kernel and container has it.
    for flags in (("--unshare-user", "--disable-userns"), ("--unshare-user",)):
        found = Bubblewrap(program=program, flags=flags, rules=rules)
        said = await _try(found)
        if not said:
            return found
    return (
        f"bubblewrap does not work here ({said}); user namespaces must be allowed "
        "(kernel.unprivileged_userns_clone, AppArmor, RestrictNamespaces= of the systemd unit, or "
        "the container's rules)"
    )


async def _try(found: Bubblewrap) -> str:
    """Run a command in it; what went wrong, "" if nothing did."""
    line = await asyncio.to_thread(
        found.command_line, (), "test -r /proc/self/status && echo works"
    )
    process = await asyncio.create_subprocess_exec(
        *line,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": _PATH},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(PROBE_S):
            out, err = await process.communicate()
    except TimeoutError:
        commands.kill_group(process.pid)
        await commands.code_of(process)
        return "it does not answer"
    if process.returncode == 0 and out.strip() == b"works":
        return ""
    lines = err.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {process.returncode}"


def _shell(rules: SandboxRules, command: str) -> list[str]:
    limited = _LIMITED.format(
        shell=SHELL,
        processes=rules.processes,
        memory_kb=rules.memory_bytes // 1024,
        file_kb=rules.file_bytes // 1024,
    )
    return [SHELL, "-c", limited, SHELL, command]


def _roots(work_dirs: Sequence[Path], rules: SandboxRules) -> Iterator[list[str]]:
    """The work directories, and what is hidden in them."""
    for root in work_dirs:
        real = Path(os.path.realpath(root))
        if str(real) != os.path.normpath(root):
            raise ToolError(LINKED_ROOT)  # see open_root
        if real == Path("/"):
            raise ToolError("the work directory is the whole file system; no command runs in it")
        if not real.is_dir():
            raise ToolError(_missing(root))
        yield ["--bind", str(real), str(root)]
        for hidden in rules.hidden:
            hides = Path(os.path.realpath(hidden))
            if not hides.is_relative_to(real):
                continue
            at = str(root / hides.relative_to(real))
            if hides.is_dir():
                yield ["--tmpfs", at]
            elif hides.exists():
                yield ["--ro-bind", "/dev/null", at]


def _missing(root: Path) -> str:
    return f"the work directory {root.name} does not exist"


def _system(rules: SandboxRules) -> Iterator[list[str]]:
    for path in _SYSTEM:
        if Path(path).is_symlink():
            yield ["--symlink", str(Path(path).readlink()), path]
        else:
            yield ["--ro-bind-try", path, path]
    yield from (["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"] for name in _ETC)
    yield from (["--ro-bind", str(path), str(path)] for path in rules.read_only_dirs)
    yield ["--proc", "/proc"]
    # A command of a daemon that runs as root is root to the kernel's own files, such as those of
    # /proc/sys, without any privilege: what they change holds for the whole machine.
    yield ["--remount-ro", "/proc"]
    yield ["--dev", "/dev"]
    size = str(rules.tmp_bytes)
    yield from (["--size", size, "--tmpfs", path] for path in ("/tmp", "/dev/shm"))  # noqa: S108
