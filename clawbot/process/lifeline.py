"""The tie between the supervisor and a child process: one socket pair, made at the child's start.

The child says on it that it is ready, and from then on, again and again, that its event loop turns.
When one side's process ends, however it ends, the system closes its end and the other side notices.
So a supervisor that is killed leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, MutableMapping
from contextlib import suppress

import structlog

from clawbot.ports import Clock

log = structlog.get_logger(__name__)

DESCRIPTOR_VARIABLE = "CLAWBOT_SUPERVISOR_FD"
PROCESS_ID_VARIABLE = "CLAWBOT_PROCESS_ID"
READY = b"ready\n"
TURNS = b"."
WAITS = b"~"
BEAT_S = 5.0
EXIT_ORPHANED = 75


class Lifeline:
    """The child's end."""

    def __init__(self, tie: socket.socket) -> None:
        self._tie = tie
        # Commands that this process starts must not keep the tie alive.
        tie.set_inheritable(False)

    def say_ready(self) -> None:
        """Tell the supervisor that this part works now."""
        try:
            self._tie.send(READY)
        except OSError as error:
            # The watching thread learns of the supervisor's end by itself.
            log.warning("ready_not_heard", error=error)

    def say_waits(self) -> None:
        """Tell the supervisor that this part cannot work yet, and that it is not hanging."""
        with suppress(OSError):
            self._tie.send(WAITS, socket.MSG_DONTWAIT)

    async def beat(self, clock: Clock) -> None:
        """Tell the supervisor until cancelled that this event loop turns."""
        while True:
            await clock.sleep(BEAT_S)
            # Where nobody hears it, the watching thread knows, or the supervisor is busy.
            with suppress(OSError):
                self._tie.send(TURNS, socket.MSG_DONTWAIT)

    def watch(self, lost: Callable[[], None], linger_s: float) -> None:
        """Call `lost` on the running loop when the supervisor is gone; end the process if it still
        runs `linger_s` later. A thread does it, so that a stuck event loop cannot survive either.
        """
        loop = asyncio.get_running_loop()

        def wait() -> None:
            try:
                while self._tie.recv(64):
                    pass
            except OSError as error:
                log.warning("lifeline_failed", error=error)
            log.warning("supervisor_lost", linger_s=linger_s)
            try:
                loop.call_soon_threadsafe(lost)
            except RuntimeError:
                return  # The loop is closed: the process is ending.
            threading.Event().wait(linger_s)
            log.error("drain_took_too_long", linger_s=linger_s)
            os._exit(EXIT_ORPHANED)

        threading.Thread(target=wait, name="lifeline", daemon=True).start()


def take_lifeline(environ: MutableMapping[str, str]) -> Lifeline | None:
    """This process's end, or None when no supervisor started it; taken out of the environment."""
    descriptor = environ.pop(DESCRIPTOR_VARIABLE, None)
    return None if descriptor is None else Lifeline(socket.socket(fileno=int(descriptor)))
