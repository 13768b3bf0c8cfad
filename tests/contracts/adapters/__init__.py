"""The adapter contract: what every `ports.ChannelAdapter` must keep, over every way it receives.

A platform subclasses `AdapterContract` and provides the fixture `ground`; each clause is a test
method of it. `test_adapters_bite` holds each clause against an adapter that breaks it.
"""

from __future__ import annotations

from tests.contracts.adapters.ground import Ground, Recorder
from tests.contracts.adapters.receiving import ReceivingClauses
from tests.contracts.adapters.sending import SendingClauses

__all__ = ["AdapterContract", "Ground", "Recorder"]


class AdapterContract(ReceivingClauses, SendingClauses):
    """All clauses."""
