"""What WeChat is sent: how large a part is there, hints beside it, and passive replies. Pure."""

from __future__ import annotations

import re

from wechatpy.replies import TextReply  # type: ignore[import-untyped]

from adapters.wechat.fields import clean
from adapters.wechat.plain import PLAIN, Dialect, render

TEXT_LIMIT_BYTES = 2_048
"""Of a passive reply and of a customer-service message; more is refused (45002)."""

HINT_BYTES = 96
MAX_SIZE = TEXT_LIMIT_BYTES - HINT_BYTES

_CHEAP_FACTOR = 8
_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff]")


def size(text: str) -> int:
    """Bytes on the wire."""
    return len(text.encode("utf-8", "replace"))


def measure(markdown: str, dialect: Dialect = PLAIN) -> int:
    """The size of a part in the unit of MAX_SIZE: UTF-8 bytes of what is shown.

    What is far too long is not rendered to be told so.
    """
    if len(markdown) > _CHEAP_FACTOR * TEXT_LIMIT_BYTES:
        return size(markdown)
    return size(render(markdown, dialect))


# -- hints -----------------------------------------------------------------------------------------


def is_chinese(text: str) -> bool:
    """Whether our own words beside this text shall be Chinese."""
    return _CHINESE.search(text) is not None


def hint_rest(text: str) -> str:
    """The text with a line that says how to get what follows it."""
    line = "（未完，发送 1 看后续）" if is_chinese(text) else "(to be continued: send 1)"
    return f"{text}\n\n{line}"


def hint_newer(text: str) -> str:
    """The text, which answers an earlier message, with a line on how to get the newest answer."""
    chinese = "（这是上一条的回复；稍后发送 1 看新回复）"
    line = chinese if is_chinese(text) else "(this answers your earlier message: send 1 soon)"
    return f"{text}\n\n{line}"


def still_working(like: str) -> str:
    """What is said when the platform waits no longer and the answer has no other way."""
    if is_chinese(like):
        return "还在处理中，请稍后发送 1 查看回复。"
    return "Still working on it. Send 1 in a moment to get the answer."


# -- passive replies -------------------------------------------------------------------------------


def passive_xml(*, to_user: str, from_user: str, text: str, at_s: int) -> str:
    """A text reply for the response of a request.

    wechatpy puts every value into CDATA as it is; the end mark inside a value must be split.
    """
    reply = TextReply(
        target=_cdata(to_user), source=_cdata(from_user), content=_cdata(text), time=at_s
    )
    return str(reply.render())


def _cdata(text: str) -> str:
    return clean(text).replace("]]>", "]]]]><![CDATA[>")
