"""WeChat and WeCom on loopback ports: Official Account, WeCom app, AI bot by webhook and socket.

The simulators speak the platforms' protocols and know nothing of the program under test.
"""

from .aibot import AibotSimulator, BotMessage
from .faults import FOREVER
from .official import UNAVAILABLE, WechatSimulator
from .pushing import Delivery
from .wecom import WecomSimulator

__all__ = [
    "FOREVER",
    "UNAVAILABLE",
    "AibotSimulator",
    "BotMessage",
    "Delivery",
    "WechatSimulator",
    "WecomSimulator",
]
