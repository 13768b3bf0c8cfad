"""A child of the supervisor that is a process of its own.

It is started in a session of its own, so that a terminal's Ctrl-C reaches the supervisor alone and
is not counted twice, and tied to the supervisor by `clawbot.process.lifeline`.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from clawbot.process.lifeline import DESCRIPTOR_VARIABLE, PROCESS_ID_VARIABLE, READY, WAITS
from clawbot.process.stopping import Stopping, first_of

log = structlog.get_logger(__name__)

EXIT_NOT_STARTED = 1
HEARD_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProcess:
    """Runs a command; see `supervisor.RunChild`.

    kill_after_s: how long after SIGTERM it is killed; more than the grace it gives itself.
    ready_after_s: after how long it is killed if it neither works nor says that it waits for its
    store. stuck_after_s: how long its event loop may stand still once it works.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    kill_after_s: float
    ready_after_s: float = 90.0
    stuck_after_s: float = 60.0

    async def __call__(
        self, process_id: str, on_ready: Callable[[], None], stopping: Stopping
    ) -> int:
        """Run it once; return its exit code, negative for a signal."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = await self._start(process_id, theirs)
            if process is None:
                return EXIT_NOT_STARTED
            log.info("child_started", started=process_id, pid=process.pid)
            try:
                return await self._accompany(process, ours, on_ready, stopping)
            finally:
                if process.returncode is None:
                    process.kill()

    async def _start(self, process_id: str, theirs: socket.socket) -> Process | None:
        environ = {
            **self.environ,
            PROCESS_ID_VARIABLE: process_id,
            DESCRIPTOR_VARIABLE: str(theirs.fileno()),
        }
        try:
            return await asyncio.create_subprocess_exec(
                *self.command,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            log.error("child_not_started", started=process_id, error=error)  # noqa: TRY400 no trace
            return None

    async def _accompany(
        self,
        process: Process,
        ours: socket.socket,
        on_ready: Callable[[], None],
        stopping: Stopping,
    ) -> int:
        is_stuck = asyncio.Event()

        async def hear() -> None:
            ours.settimeout(0)
            loop, works = asyncio.get_running_loop(), False
            until = loop.time() + self.ready_after_s
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        said = await loop.sock_recv(ours, HEARD_BYTES)
                except TimeoutError:
                    is_stuck.set()
                    what = "child_stuck" if works else "child_not_ready"
                    log.error(what, pid=process.pid)  # noqa: TRY400 no trace
                    return
                if not said:
                    return
                if not works and READY in said:
                    works = True
                    on_ready()
                if works:
                    until = loop.time() + self.stuck_after_s
                elif WAITS in said:
                    until = loop.time() + self.ready_after_s

        hearing = asyncio.create_task(hear(), name=f"hear {process.pid}")
        try:
            await first_of(process.wait(), stopping.stop.wait(), is_stuck.wait())
            if process.returncode is None and is_stuck.is_set():
                process.kill()
            elif process.returncode is None:
                process.terminate()
                await first_of(process.wait(), stopping.now.wait(), timeout_s=self.kill_after_s)
            if process.returncode is None and not is_stuck.is_set():
                log.warning("child_killed", pid=process.pid, insisted=stopping.now.is_set())
                process.kill()
            return await process.wait()
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
