"""The heartbeat of a part, from the config."""

from __future__ import annotations

from clawbot.config import Config
from clawbot.lease import Facts, Heartbeat, no_facts
from clawbot.ports import Clock, Store


def heartbeat_of(
    config: Config,
    store: Store,
    clock: Clock,
    process_id: str,
    role: str,
    facts: Facts = no_facts,
) -> Heartbeat:
    """The heartbeat that a part begins before it claims anything."""
    return Heartbeat(
        store,
        clock,
        process_id,
        role,
        interval_s=config.limits.heartbeat_s,
        lease_s=config.limits.lease_s,
        facts=facts,
    )
