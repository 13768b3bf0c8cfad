"""What the tools of one turn are told, and which of them it has; see `tools.context`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from clawbot.config import Config
from clawbot.observation import PLAN, SAY_NOTHING, START_TASK
from clawbot.planning import Planning
from clawbot.ports import Clock, Reporter, Store
from clawbot.store.claims import Claim
from clawbot.store.schedules import MAY_BE_SILENT
from clawbot.tools import seen_files
from clawbot.tools.approvals import TurnApprovals
from clawbot.tools.context import TurnContext
from clawbot.tools.outgoing import TurnFiles
from clawbot.tools.plans import TurnPlans
from clawbot.tools.seen_files import SeenFiles
from clawbot.tools.turn_tasks import TurnTasks
from clawbot.work_dirs import work_dirs_of

SPEAKING = frozenset({"send_file", "schedule"})
"""Tools with which a turn reaches people: a task does not have them."""


def turn_context(
    config: Config,
    store: Store,
    clock: Clock,
    claim: Claim,
    *,
    channel: str,
    work_dirs: Sequence[Path],
    session_dir: Path,
    reporter: Reporter,
    stopping: asyncio.Event,
    planning: Planning | None = None,
) -> TurnContext:
    """The context of a turn, for its tools.

    A task speaks with nobody but the conversation that began it: it may ask people about a call,
    and that is all. channel: whose settings count. planning: of a turn in plan mode.
    """
    may_be_silent = all(row.reason == MAY_BE_SILENT for row in claim.rows)
    limit_s = config.tasks.timeout_s if claim.is_task else config.turns.turn_timeout_s
    context = TurnContext(
        session=claim.session,
        work_dirs=work_dirs,
        readable_dirs=(*work_dirs, session_dir),
        session_dir=session_dir,
        is_owner=all(config.commands_all(row.channel, row.sender.id) for row in claim.rows),
        channel=channel,
        deadline=clock.monotonic() + limit_s,
        reporter=reporter,
        stopping=stopping,
        store=store,
        approvals=TurnApprovals(
            store, clock, claim, config.limits.approval_s, bound="\n".join(map(str, work_dirs))
        ),
        may_be_silent=may_be_silent,
        seen=SeenFiles(folder=session_dir / seen_files.FOLDER),
        withheld=_withheld(claim, may_be_silent=may_be_silent, plans=planning is not None),
    )
    if planning is not None:
        context.plan_folder, context.guard = planning.folder, planning.refusal
    if not claim.is_task:
        context.file_sender = TurnFiles(store, clock, claim)
        context.planner = partial(TurnPlans, store, clock, claim, config.time_zone)
    if START_TASK not in context.withheld:
        dirs = _dirs_of_task(config, channel, claim, work_dirs)
        at_once = config.tasks.at_once
        context.task_starter = partial(TurnTasks, store, clock, claim, at_once, dirs)
    return context


def _withheld(claim: Claim, *, may_be_silent: bool, plans: bool) -> frozenset[str]:
    """The tools that the turn does not have."""
    names = set(SPEAKING) if claim.is_task else set()
    if claim.session.task is not None:
        names.add(START_TASK)
    if not may_be_silent:
        names.add(SAY_NOTHING)
    if not plans:
        names.add(PLAN)
    return frozenset(names)


def _dirs_of_task(
    config: Config, channel: str, claim: Claim, work_dirs: Sequence[Path]
) -> tuple[str, ...]:
    """The directories to bind a task to, so that it works where this turn does; none where it does
    so by itself.
    """
    usual = work_dirs_of(config, channel, claim.session.with_task("-"))
    return () if tuple(work_dirs) == usual else tuple(map(str, work_dirs))
