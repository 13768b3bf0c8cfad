"""Opens a recorded body for `explain`: sealed or plain, XML or JSON. Pure.

The signature stands in the request's address, which a recorded body does not have; the ciphertext
proves by itself that it is ours.
"""

from __future__ import annotations

from adapters.payload import Json
from adapters.wechat.crypto import BadEnvelope, Envelope
from adapters.wechat.fields import UnreadableBody, clean, read_body, text_field
from clawbot.messages import Ignored


def open_recorded(envelope: Envelope | None, body: bytes) -> tuple[Json, str] | Ignored:
    """The fields of a message and its text as it came, or why they cannot be known."""
    text = clean(body.decode("utf-8", "replace"))
    try:
        fields = read_body(text)
        sealed = (text_field(fields, "Encrypt") or text_field(fields, "encrypt")).strip()
        if not sealed:
            return fields, text
        if envelope is None and text_field(fields, "MsgType"):
            return fields, text  # the plain half of compatible mode
        if envelope is None:
            return Ignored(reason="no_aes_key")
        inner = envelope.open(sealed)
        return read_body(inner), inner
    except UnreadableBody:
        return Ignored(reason="unreadable_body")
    except BadEnvelope:
        return Ignored(reason="not_our_ciphertext")
