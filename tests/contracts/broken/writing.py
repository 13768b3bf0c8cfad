"""Broken writers, readers and bells."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from clawbot.errors import StoreUnavailable
from clawbot.ports import Unit
from clawbot.store import engine, group_commit
from clawbot.store.doorbell import Doorbell
from clawbot.store.ears import Ear
from clawbot.store.engine import SqliteDatabase, SqliteStore, SqliteTransaction
from clawbot.store.group_commit import GroupCommit
from tests.contracts.broken.breaking import Break, nothing, replacing, rewrite, rewriting, wrapping
from tests.contracts.sqlite_ground import SqliteGround, open_store


def without_reruns(self: GroupCommit, link: Any, batch: list[Any]) -> set[str]:
    """Let all of a batch share the fault of one."""
    try:
        return self._transact(link.connection(), batch)
    except Exception:
        link.roll_back()
        raise


def settle_all(self: GroupCommit, batch: list[Any]) -> None:
    """Forget that a caller may have left."""
    for job in batch:
        job.future.set_result(job.result)


async def open_forgetful(address: str, process_id: str) -> SqliteStore:
    """A store that says a write is durable before it is, and is killed in between."""
    store = await open_store(address, process_id)
    rewrite(store, {"COMMIT": "ROLLBACK"})
    return store


def forgetful(_patch: pytest.MonkeyPatch, ground: SqliteGround) -> None:
    """Let the other process open such a store."""
    ground.opener = f"{__name__}:open_forgetful"


class RingingEarly(set[str]):
    """The rings of a unit, heard before its commit and whatever becomes of it."""

    def __init__(self, ring: Callable[[set[str]], None]) -> None:
        super().__init__()
        self._ring = ring

    def add(self, topic: str) -> None:
        self._ring({topic})


def ring_early(
    original: Callable[..., set[str]], self: GroupCommit, conn: Connection, batch: list[Any]
) -> set[str]:
    """Ring from within the units."""
    for job in batch:

        def unit(tx: SqliteTransaction, inner: Unit[Any] = job.unit) -> object:
            tx.rings = RingingEarly(self._ring)
            return inner(tx)

        job.unit = unit
    return original(self, conn, batch)


async def wait_from_now(self: Ear, timeout_s: float) -> bool:
    """Hear only what rings while waiting."""
    self.rung.clear()
    try:
        async with asyncio.timeout(timeout_s):
            await self.rung.wait()
    except TimeoutError:
        return False
    return True


async def write_or_complain(
    original: Callable[..., Any], self: SqliteStore, unit: Unit[Any]
) -> object:
    """Hold that a write whose ring nobody hears has failed."""
    result = await original(self, unit)
    if not self._doorbell._folder.exists():
        raise StoreUnavailable
    return result


WRITE_BREAKS = (
    Break(
        clause="test_a_write_is_there_for_everybody_when_it_returns",
        fault="a batch is rolled back",
        apply=rewriting(COMMIT="ROLLBACK"),
    ),
    Break(
        clause="test_what_was_written_outlives_a_killed_process",
        fault="the answer comes before the commit",
        apply=forgetful,
    ),
    Break(
        clause="test_a_unit_that_raises_leaves_nothing_and_its_neighbours_stay",
        fault="what a unit wrote before it raised is committed",
        apply=rewriting(ROLLBACK="COMMIT"),
    ),
    Break(
        clause="test_a_burst_needs_few_commits",
        fault="each unit is committed by itself",
        apply=replacing(group_commit, "BATCH_UNITS", 1),
    ),
    Break(
        clause="test_units_run_in_the_order_in_which_they_were_asked_for",
        fault="the newest unit runs first",
        apply=replacing(queue, "SimpleQueue", queue.LifoQueue),
    ),
    Break(
        clause="test_a_failure_that_ends_the_transaction_spares_its_neighbours",
        fault="a lost batch is not run again",
        apply=replacing(GroupCommit, "_commit", without_reruns),
    ),
    Break(
        clause="test_what_cannot_be_written_is_said_and_can_be_written_later",
        fault="the database's own exceptions come through",
        apply=replacing(SqliteDatabase, "is_fault", lambda _self, _error: False),
        raises=(SQLAlchemyError,),
    ),
    Break(
        clause="test_a_cancelled_caller_hurts_nobody_else",
        fault="a caller that left is answered",
        apply=replacing(GroupCommit, "_settle", settle_all),
    ),
    Break(
        clause="test_a_read_sees_one_snapshot",
        fault="a read has no transaction",
        apply=rewriting(BEGIN="SELECT 1", ROLLBACK="SELECT 1"),
    ),
    Break(
        clause="test_two_processes_do_not_overwrite_each_other",
        fault="a unit does not lock what it reads",
        apply=rewriting(
            BEGIN_IMMEDIATE="SELECT 1",
            COMMIT="SELECT 1",
        ),
    ),
    Break(
        clause="test_a_writer_waits_while_another_process_writes",
        fault="a locked database is given up at once",
        apply=replacing(engine, "BUSY_TIMEOUT_S", 0.0),
        raises=(StoreUnavailable,),
    ),
    Break(
        clause="test_closing_commits_what_waits",
        fault="closing overtakes what waits",
        apply=replacing(queue, "SimpleQueue", queue.LifoQueue),
    ),
)

BELL_BREAKS = (
    Break(
        clause="test_a_ring_wakes_a_listener_of_another_store_after_the_commit",
        fault="a ring comes before its commit",
        apply=wrapping(GroupCommit, "_transact", ring_early),
    ),
    Break(
        clause="test_a_ring_wakes_a_listener_of_another_store_after_the_commit",
        fault="nothing rings",
        apply=replacing(Doorbell, "ring", nothing),
    ),
    Break(
        clause="test_a_ring_wakes_a_listener_in_another_process",
        fault="a ring stays in its process",
        apply=replacing(Doorbell, "ring", nothing),
    ),
    Break(
        clause="test_a_ring_before_the_wait_is_heard_and_only_once",
        fault="a wait forgets the rings before it",
        apply=replacing(Ear, "wait", wait_from_now),
    ),
    Break(
        clause="test_other_topics_and_failed_units_ring_nobody",
        fault="a unit that fails rings",
        apply=wrapping(GroupCommit, "_transact", ring_early),
    ),
    Break(
        clause="test_a_closed_ear_hears_no_more",
        fault="closing does nothing",
        apply=replacing(Ear, "close", nothing),
    ),
    Break(
        clause="test_a_lost_ring_costs_nothing_but_time",
        fault="a write fails with its ring",
        apply=wrapping(SqliteStore, "write", write_or_complain),
        raises=(StoreUnavailable,),
    ),
)
