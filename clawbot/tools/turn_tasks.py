"""The tasks that the agent begins beside a turn's conversation; a `tools.start_task.Tasks`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial

from clawbot.errors import ToolError
from clawbot.ports import Clock, Store, Unit
from clawbot.store import task_runs
from clawbot.store.claims import Claim
from clawbot.text import clean

ID_BYTES = 3


class TurnTasks:
    """See the module. at_once: how many the conversation may have; work_dirs: those of a task, none
    = the usual ones; commit: takes what is to be committed with the call's result.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        turn: Claim,
        at_once: int,
        work_dirs: Sequence[str],
        commit: Callable[[Unit[None]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._turn = turn
        self._at_once = at_once
        self._work_dirs = work_dirs
        self._commit = commit

    async def start(self, title: str, instructions: str) -> str:
        """See `Tasks`."""
        base = self._turn.session
        if base.task is not None:
            raise ToolError(
                "This is itself done beside a conversation, and begins no tasks: do it."
            )
        title, text = " ".join(clean(title).split()), clean(instructions).strip()
        if not title or not text:
            raise ToolError("title, instructions: say in words what is to be done")
        running = await self._store.read(partial(task_runs.open_of, base=base))
        if len(running) >= self._at_once:
            names = ", ".join(f"{run.session.task} ({run.title})" for run in running)
            raise ToolError(
                f"Only {self._at_once} tasks may run beside this conversation, and there are: "
                f"{names}. Do it here, or wait for a report."
            )
        task_id = secrets.token_hex(ID_BYTES)
        self._commit(
            partial(
                task_runs.start,
                turn=self._turn,
                task_id=task_id,
                title=title,
                text=text,
                work_dirs=self._work_dirs,
                now_ms=self._clock.now_ms(),
            )
        )
        return (
            f"Task {task_id} has begun; its report will come here as a message. Tell people so. "
            f"They see it with /status and end it with /task done {task_id}; /stop ends it too."
        )
