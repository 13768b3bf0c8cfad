"""Loading files from the platforms: bounded, and sorted into what is a file and what an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from adapters.payload import Json, parse, text_of
from adapters.wechat.failures import TOKEN_CODES, code_of
from clawbot.errors import NotLoaded, SendError

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=10)
_LONGEST_ERROR_BYTES = 4_096


async def load(
    session: aiohttp.ClientSession, url: str, params: Mapping[str, str], max_bytes: int
) -> bytes:
    """All of what stands there. Raises NotLoaded."""
    try:
        async with session.get(
            url, params=dict(params), timeout=_TIMEOUT, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise NotLoaded(f"the platform answered {answer.status}")
            data = bytearray()
            async for chunk in answer.content.iter_chunked(65_536):
                data += chunk
                if len(data) > max_bytes:
                    raise NotLoaded(f"it is larger than {max_bytes} bytes")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NotLoaded(f"it could not be loaded ({type(error).__name__})") from error
    return bytes(data)


Get = Callable[[str], Awaitable[bytes]]
"""Loads a file with a token."""


async def load_with_token(
    get: Get,
    token: Callable[[], Awaitable[str]],
    refuse: Callable[[str], None],
    follow: Get,
) -> bytes:
    """A media file of an account: once more with a new token when one was refused.

    follow: loads the address that WeChat names instead of a video.
    """
    answer: Json | None = {}
    for _ in range(2):
        try:
            value = await token()
        except SendError as error:
            raise NotLoaded("the platform gives no token for it") from error
        data = await get(value)
        answer = _error_of(data)
        if answer is None:
            return data
        if url := text_of(answer.get("video_url")):
            return await follow(url)
        if code_of(answer) not in TOKEN_CODES:
            break
        refuse(value)
    raise NotLoaded(f"the platform says {code_of(answer or {})}")


def _error_of(data: bytes) -> Json | None:
    """The platform's answer in place of a file; None for a file, which may be JSON as well."""
    if len(data) > _LONGEST_ERROR_BYTES or not data.lstrip().startswith(b"{"):
        return None
    answer = parse(data)
    return answer if answer and ({"errcode", "video_url"} & answer.keys()) else None
