"""Faults of what processes are told of each other."""

from __future__ import annotations

from clawbot.store import draining, processes
from tests.contracts.broken.breaking import Break, changing, replacing

PEER_BREAKS = (
    Break(
        clause="test_the_living_of_a_role_are_counted",
        fault="the silent count too",
        apply=changing(processes, "count", lease_ms=10**12),
    ),
    Break(
        clause="test_who_answers_a_channel_and_drains_is_known",
        fault="nobody is known to drain",
        apply=replacing(draining, "DRAINS", {"of another name": ""}),
    ),
    Break(
        clause="test_who_answers_a_channel_and_drains_is_known",
        fault="all channels are one",
        apply=changing(draining, "running", channel="desk"),
    ),
)
