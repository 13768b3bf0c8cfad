"""The topics of the doorbell."""

from __future__ import annotations

TURNS = "turns"
"""A session became claimable."""

SCHEDULES = "schedules"
"""Something was planned."""

STOPS = "stops"
"""Somebody stopped a turn."""

EVENTS = "events"
"""A session has new events, or a draft grew."""


def outbox_topic(channel: str) -> str:
    """A reply, or a draft of one, waits for this channel's adapter."""
    return f"outbox:{channel}"


def draft_topic(channel: str) -> str:
    """A reply of this channel grew, or its growth ended."""
    return f"draft:{channel}"


def enrich_topic(channel: str) -> str:
    """A message of this channel waits to be completed."""
    return f"enrich:{channel}"
