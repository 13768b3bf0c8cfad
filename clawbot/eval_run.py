"""Runs the cases of `clawbot eval`: each in a fresh directory and a session of its own, through the
real worker, on a store that is thrown away.

The scripts run where the agent's own commands run, for they start what it has written. Nobody is
there to be asked: what asks people is refused, or, if that is wanted, approved.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import structlog
from sqlalchemy import select

from clawbot.config import Config
from clawbot.eval_cases import Case
from clawbot.ports import Clock, Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import costs, events, session_admin
from clawbot.store.costs import Total
from clawbot.store.schema import approvals, inbox, turns
from clawbot.store.topics import EVENTS
from clawbot.terminal import CHANNEL, Conversation
from clawbot.tools import commands
from clawbot.tools.sandbox import SHELL, Sandbox, environment

log = structlog.get_logger(__name__)

Verdict = Literal["passed", "failed", "setup_failed", "timeout", "error"]
"""passed, failed: what the check says. error: the turn failed, or its check could not be made."""

OUTPUT_BYTES = 20_000
NOTE_LINES = 5
LOOK_AGAIN_S = 1.0
STOP_S = 30.0
NOBODY = "nobody is here to approve it; do without"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a case came to. seconds: of the agent's turn. asked: how often it asked people.
    note: why it did not pass, if it did not.
    """

    case: str
    verdict: Verdict
    model: str
    seconds: float = 0.0
    spent: Total = field(default_factory=Total)
    asked: int = 0
    answer: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How a turn is. state: of the turn, when it has ended. questions: which are open."""

    is_open: bool
    state: str = ""
    reply: str = ""
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Runs cases, so many at once. root: where their directories are made. approves: what becomes
    of questions.
    """

    config: Config
    store: Store
    clock: Clock
    sandbox: Sandbox
    root: Path
    at_once: int = 1
    approves: bool = False

    async def run(self, cases: Sequence[Case], ended: Callable[[Result], None]) -> list[Result]:
        """All cases, in their order; `ended` is told of each as it ends."""
        room = asyncio.Semaphore(self.at_once)

        async def one(case: Case) -> Result:
            async with room:
                try:
                    result = await self._case(case)
                except Exception as error:
                    # The boundary of a case: the others are run all the same.
                    log.exception("case_crashed", case=case.name)
                    model = case.file.model or self.config.model
                    note = f"{type(error).__name__}: {error}"
                    result = Result(case=case.name, verdict="error", model=model, note=note)
            ended(result)
            return result

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(case), name=f"case {case.name}") for case in cases]
        return [task.result() for task in tasks]

    async def _case(self, case: Case) -> Result:
        work = self.root / "work" / case.name
        await asyncio.to_thread(work.mkdir, mode=0o700, parents=True)
        model = case.file.model or self.config.model
        result = Result(case=case.name, verdict="passed", model=model)
        if case.setup is not None:
            note = await self._script(case, case.setup, work)
            if note:
                return replace(result, verdict="setup_failed", note=note)
        result = await self._turn(case, work, result)
        if result.verdict != "passed":
            return result
        answer = self.root / f"answer of {case.name}"
        await asyncio.to_thread(answer.write_text, result.answer, encoding="utf-8")
        note = await self._script(case, case.check, work, answer)
        return replace(result, verdict="failed" if note else "passed", note=note)

    async def _turn(self, case: Case, work: Path, result: Result) -> Result:
        """Let the agent do the task."""
        key = SessionKey.of_directory(str(work))
        talk = Conversation(
            store=self.store,
            clock=self.clock,
            key=key,
            models=self.config.models_of(CHANNEL),
            model=result.model,
            lease_s=self.config.limits.lease_s,
        )
        await self.store.write(partial(self._open, key=key, model=case.file.model))
        started = self.clock.monotonic()
        inbox_id = await talk.send(case.file.task)
        asked, is_late = 0, False
        try:
            async with asyncio.timeout(case.file.timeout_s):
                seen, asked = await self._ended(talk, inbox_id)
        except TimeoutError:
            is_late, seen = True, Seen(is_open=False)
            await talk.send("/stop")
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    seen, _ = await self._ended(talk, inbox_id)
        verdict: Verdict = "passed"
        note = ""
        if is_late:
            verdict, note = "timeout", f"not done within {case.file.timeout_s:g} s"
        elif seen.state != "done":
            verdict, note = "error", _last_lines(seen.reply) or f"the turn ended as {seen.state}"
        return replace(
            result,
            verdict=verdict,
            note=note,
            seconds=self.clock.monotonic() - started,
            spent=await self.store.read(partial(costs.total, session=key)),
            asked=asked,
            answer=seen.reply,
        )

    def _open(self, tx: Transaction, key: SessionKey, model: str | None) -> None:
        now_ms = self.clock.now_ms()
        session_admin.open_session(tx, key, now_ms)
        if model is not None:
            session_admin.change_settings(tx, key, {"model": model}, now_ms)

    async def _ended(self, talk: Conversation, inbox_id: int) -> tuple[Seen, int]:
        """The turn's end, and how many questions were decided on the way."""
        asked = 0
        ear = self.store.listen([EVENTS])
        try:
            while True:
                seen = await self.store.read(partial(_look, key=talk.key, inbox_id=inbox_id))
                if not seen.is_open:
                    return seen, asked
                for question in seen.questions:
                    asked += 1
                    said = f"/approve {question}" if self.approves else f"/deny {question} {NOBODY}"
                    await talk.send(said)
                await ear.wait(LOOK_AGAIN_S)
        finally:
            ear.close()

    async def _script(
        self, case: Case, script: Path, work: Path, answer: Path | None = None
    ) -> str:
        """Run a script in the work directory; "" = it exited with 0, else how it ended."""
        shown = tuple(path for path in (case.folder, answer) if path is not None)
        rules = self.sandbox.rules
        rules = replace(rules, read_only_dirs=(*rules.read_only_dirs, *shown))
        told = [f"export CASE={shlex.quote(str(case.folder))}"]
        if answer is not None:
            told.append(f"export ANSWER={shlex.quote(str(answer))}")
        command = "; ".join([*told, f"exec {SHELL} {shlex.quote(str(script))}"])
        sandbox = replace(self.sandbox, rules=rules)
        finished = await commands.run(
            await asyncio.to_thread(sandbox.command_line, [work], command),
            cwd=work,
            env=environment(),
            timeout_s=case.file.script_timeout_s,
            most_bytes=OUTPUT_BYTES,
        )
        if finished.code == 0:
            return ""
        ending = (
            f"{script.name} was ended after {case.file.script_timeout_s:g} s"
            if finished.code is None
            else f"{script.name} exited with {finished.code}"
        )
        printed = _last_lines(finished.output.text())
        return f"{ending}: {printed}" if printed else ending


def _look(tx: Transaction, key: SessionKey, inbox_id: int) -> Seen:
    row = tx.conn.execute(
        select(inbox.c.settled_ms, turns.c.state)
        .outerjoin(turns, turns.c.id == inbox.c.turn_id)
        .where(inbox.c.id == inbox_id)
    ).one()
    if row[0] is None:
        asked = approvals.c.session_key == str(key), approvals.c.decided_ms.is_(None)
        found = tx.conn.execute(select(approvals.c.id).where(*asked)).scalars().all()
        return Seen(is_open=True, questions=tuple(found))
    log = events.of_session(tx, key, 0, limit=10_000)
    replies = [str(event.data["text"]) for event in log if event.kind == "reply"]
    return Seen(is_open=False, state=row[1] or "stopped", reply=replies[-1] if replies else "")


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-NOTE_LINES:])
