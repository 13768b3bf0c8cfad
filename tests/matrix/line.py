"""The processes of one kind, one after another: adapters, or workers."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from clawbot.process.lifeline import PROCESS_ID_VARIABLE
from tests.matrix.nursery import Born, Nursery
from tests.matrix.platforms import until
from tests.matrix.points import Order, Role


class Line:
    """The processes of one kind, one after another."""

    def __init__(self, nursery: Nursery, config: Path, role: Role, channel: str) -> None:
        self._nursery = nursery
        self._config = config
        self._role = role
        words = ("adapter", channel) if role == "adapter" else ("worker",)
        self._arguments = (*words, "--config", str(config))
        self._number = 0
        self._folder = config.parent
        self.process_id = ""
        self.living: Born | None = None

    async def start(self, order: Order | None = None) -> None:
        """Begin the next one, which may have an order from its start."""
        self._number += 1
        self.process_id = f"{self._role}-{self._number}"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self.process_id}-", dir=self._config.parent))
        if order is not None:
            order.write(self._folder)
        environ = {PROCESS_ID_VARIABLE: self.process_id}
        log = self._folder / "log"
        self.living = await self._nursery.bear(self._arguments, log, self._folder, environ)

    def tell(self, order: Order) -> None:
        """Tell the one that lives what to do where."""
        order.write(self._folder)

    async def until_dead(self, what: str) -> None:
        """Wait for its kill, which nothing else may have forestalled."""
        assert self.living is not None
        living = self.living
        await until(lambda: not living.is_alive, f"the end of {what}")
        code = living.code.result()
        assert code == -signal.SIGKILL, f"{what}: ended with {code}\n{self.text()}"

    @property
    def is_struck(self) -> bool:
        """Whether it has come to its point: it stands there, or was killed."""
        return self.living is not None and (self.living.is_frozen or self.is_killed)

    @property
    def is_killed(self) -> bool:
        """Whether it was killed."""
        living = self.living
        return (
            living is not None and not living.is_alive and (living.code.result() == -signal.SIGKILL)
        )

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, however."""
        return self.living is not None and not self.living.is_alive

    def text(self) -> str:
        """The end of what the process that runs has printed."""
        return "" if self.living is None else self.living.text()[-6000:]
