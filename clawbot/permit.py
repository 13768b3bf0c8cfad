"""Whether a process may still call its platform: not when others may serve the channel by now."""

from __future__ import annotations

from clawbot.errors import NotSent
from clawbot.lease import Heartbeat

HANDED_OVER_S = 0.01


class Permit:
    """Given to the tasks that send; withdrawn before this process ends.

    A call that is cut off leaves behind the question whether the platform took it, so a process
    that ends lets those that are under way come to an end, and begins no more.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._is_withdrawn = False

    def withdraw(self) -> None:
        """Let no more calls begin."""
        self._is_withdrawn = True

    def check(self) -> None:
        """Raise NotSent when no call may begin."""
        if self._is_withdrawn:
            raise NotSent("this process ends", retry_after_s=HANDED_OVER_S)
        if not self._heartbeat.is_fresh:
            raise NotSent("others may have taken this process for dead")
