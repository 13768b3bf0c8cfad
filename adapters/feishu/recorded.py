"""A payload that was kept in a file, read as if Feishu had just sent it. Pure: no network."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.feishu.config import FeishuConfig
from adapters.feishu.facts import Facts
from adapters.feishu.inbound import parse_event
from adapters.feishu.seal import BadCiphertext, decrypt, is_signed
from adapters.payload import parse, text_of
from clawbot.messages import Ignored, InboundMessage


def read_recorded(
    headers: Mapping[str, str], body: bytes, config: FeishuConfig, facts: Facts
) -> InboundMessage | Ignored:
    """Read a request body, encrypted or not, or the payload of a frame.

    A signature is checked; without one nothing is.
    """
    key = config.encrypt_key.get_secret_value() if config.encrypt_key is not None else ""
    lower = {name.lower(): value for name, value in headers.items()}
    if "x-lark-signature" in lower and not (key and is_signed(lower, body, key)):
        return Ignored(reason="bad_signature")
    payload = parse(body)
    if payload is not None and "encrypt" in payload:
        if not key:
            return Ignored(reason="encrypted_without_key")
        try:
            payload = parse(decrypt(text_of(payload.get("encrypt")), key))
        except BadCiphertext:
            return Ignored(reason="wrong_encrypt_key")
    return Ignored(reason="unreadable_body") if payload is None else parse_event(payload, facts)
