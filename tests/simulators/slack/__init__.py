"""Slack on a loopback port, for tests and demos: Web API, Socket Mode and signed Events API.

Stands in for Slack in front of the real `slack_sdk` and `slack_bolt` and knows nothing of the
program under test. `python -m tests.simulators.slack` runs it alone.
"""

from .faults import FOREVER, Fault
from .feed import Delivery
from .people import SlashTextRefused, Upload
from .record import SentFile, SentMessage
from .simulator import SlackSimulator
from .web_api import Call

__all__ = [
    "FOREVER",
    "Call",
    "Delivery",
    "Fault",
    "SentFile",
    "SentMessage",
    "SlackSimulator",
    "SlashTextRefused",
    "Upload",
]
