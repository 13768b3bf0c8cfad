"""Feishu on a loopback port, for tests and demos: Open API, long connection and webhook pushes.

Stands in for Feishu in front of the real `lark_oapi` and knows nothing of the program under test.
`python -m tests.simulators.feishu` runs it alone.
"""

from .faults import FOREVER, Fault
from .feed import Delivery
from .open_api import Call
from .record import SentMessage
from .simulator import FeishuSimulator

__all__ = ["FOREVER", "Call", "Delivery", "Fault", "FeishuSimulator", "SentMessage"]
