"""Tells systemd how we are: the few messages of sd_notify(3) that a Type=notify service needs.

Without NOTIFY_SOCKET in the environment nothing is sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import structlog

from clawbot.ports import Clock

log = structlog.get_logger(__name__)

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd sets for the main process; its children must not inherit it."""


class Notifier:
    """Sends datagrams to the service manager; a lost one is logged and does no harm."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of an abstract socket.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = int(environ.get("WATCHDOG_USEC", "0")) / 1e6 if is_ours else 0.0

    def ready(self) -> None:
        """Everything runs."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send("STATUS=" + text.replace("\n", " "))

    def stopping(self) -> None:
        """We are on our way out."""
        self._send("STOPPING=1")

    async def feed_watchdog(self, clock: Clock) -> None:
        """Prove until cancelled that the event loop turns, twice in the time systemd allows."""
        while self._address and self.watchdog_s:
            self._send("WATCHDOG=1")
            await clock.sleep(self.watchdog_s / 2)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.settimeout(0)
                channel.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("notify_failed", error=error)
