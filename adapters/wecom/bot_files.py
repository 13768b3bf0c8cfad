"""The files of an AI bot's messages: loaded from their short-lived address and decrypted."""

from __future__ import annotations

import base64

from wechatpy.crypto.base import WeChatCipher  # type: ignore[import-untyped]

from adapters.payload import parse, text_of
from adapters.wechat.calls import HttpCaller
from adapters.wechat.media import load
from adapters.wecom.bot_webhook import is_safe_url
from adapters.wecom.config import WecomBotConfig
from clawbot.errors import NotLoaded

_BLOCK = 32
_KEY_BYTES = 32


class BotFiles:
    """Loads what `bot_inbound` names as an attachment's source."""

    def __init__(self, config: WecomBotConfig) -> None:
        self._http = HttpCaller("")
        key = config.encoding_aes_key
        self._own_key = "" if key is None else key.get_secret_value()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.close()

    async def load(self, source: str, max_bytes: int) -> bytes:
        """A file, decrypted. Raises NotLoaded."""
        about = parse(source) or {}
        url = text_of(about.get("url"))
        if not is_safe_url(url):
            raise NotLoaded("its address is not one of WeCom's")
        data = await load(self._http.session, url, {}, max_bytes + _BLOCK)
        # The long connection names a key for each file; webhooks use the bot's own.
        return decrypt(data, text_of(about.get("aeskey")) or self._own_key)


def decrypt(data: bytes, key: str) -> bytes:
    """AES-256-CBC, the key's first 16 bytes as IV, padded to blocks of 32. Raises NotLoaded."""
    try:
        secret = base64.b64decode(key.rstrip("=") + "=" * (-len(key.rstrip("=")) % 4))
        if len(secret) != _KEY_BYTES or not data:
            raise NotLoaded("it cannot be decrypted: no key, or nothing to decrypt")
        plain = bytes(WeChatCipher(secret).decrypt(data))
    except ValueError as error:
        raise NotLoaded("it cannot be decrypted") from error
    padding = plain[-1]
    if not 1 <= padding <= _BLOCK or plain[-padding:] != bytes([padding]) * padding:
        raise NotLoaded("it cannot be decrypted: wrong key")
    return plain[:-padding]
