"""What a `MessageRef` and a route's token hold on Feishu: opaque to everybody else."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.payload import dump, number_of, object_of, parse, text_of

STREAM = "stream"
CARD = "card"
POST = "post"
TEXT = "text"
FILE = "file"

_DIRECT = " direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A message that we sent.

    form: stream (a card that grows by the card kit), card, post, text or file. card_id: of a
    stream. since_ms: when it was sent; a card's sequence counts from here.
    """

    message_id: str
    form: str
    card_id: str = ""
    since_ms: int = 0

    def encode(self) -> str:
        """As the text that the core keeps."""
        fields = {"m": self.message_id, "f": self.form}
        if self.card_id:
            return dump(fields | {"c": self.card_id, "t": self.since_ms})
        return dump(fields)

    @classmethod
    def decode(cls, text: str) -> Reference:
        """Back from the text."""
        fields = object_of(parse(text))
        return cls(
            message_id=text_of(fields.get("m")),
            form=text_of(fields.get("f")) or TEXT,
            card_id=text_of(fields.get("c")),
            since_ms=number_of(fields.get("t")) or 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The message that is being answered. is_direct: whether it stands in a direct chat."""

    message_id: str
    is_direct: bool = False

    def encode(self) -> str:
        """As the token of the answer's route."""
        return self.message_id + (_DIRECT if self.is_direct else "")

    @classmethod
    def decode(cls, token: str | None) -> Asked:
        """Back from the token."""
        message_id = (token or "").removesuffix(_DIRECT)
        return cls(message_id=message_id, is_direct=message_id != (token or ""))
