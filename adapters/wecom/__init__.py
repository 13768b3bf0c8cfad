"""WeCom: apps (encrypted callback, message API) and AI bots (webhook or long connection).

Callbacks are WeChat's in another envelope, so what both share stands in `adapters.wechat`.
"""
