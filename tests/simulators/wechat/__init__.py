"""WeChat and WeCom on loopback ports: Official Account, WeCom app, AI bot by webhook and socket."""

from .faults import FOREVER
from .official import UNAVAILABLE, WechatSimulator
from .pushing import Delivery

__all__ = ["FOREVER", "UNAVAILABLE", "Delivery", "WechatSimulator"]
