"""What the API is sent: strict models of the bodies, and reading them within bounds."""

from __future__ import annotations

import asyncio
from typing import Annotated, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from clawbot.session_key import SessionKey
from clawbot.store.transcript import Position
from clawbot.web.problems import Problem

BODY_BYTES = 2 * 1024 * 1024  # a text of TEXT_BYTES whose characters are all escaped fits
TEXT_BYTES = 256 * 1024
KEY_CHARS = 2_000
READ_TIMEOUT_S = 30.0
MOST_ITEMS = 200

Key = Annotated[str, StringConstraints(max_length=KEY_CHARS)]
Seq = Annotated[int, Field(ge=0, lt=2**63)]


class Body(BaseModel):
    """A JSON body: no unknown keys, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class NewMessage(Body):
    """A message for a session. The same `client_msg_id` is the same message, however often sent."""

    session: Key
    text: str
    client_msg_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class SessionName(Body):
    """The session that something shall be done to."""

    session: Key


class Listening(Body):
    """Where a page's event stream begins, and which session it shows."""

    cursor: dict[Key, Seq] | None = None
    session: Key | None = None


B = TypeVar("B", bound=Body)


async def read_body(request: web.Request, model: type[B]) -> B:
    """Read a JSON body. Raise Problem, or the server's own error when it is too large."""
    if request.content_type != "application/json":
        raise Problem(415, "not_json", "Send a JSON body with Content-Type: application/json.")
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            data = await request.read()
    except TimeoutError as error:
        raise Problem(408, "too_slow", "The request did not arrive in time. Try again.") from error
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        faults = "; ".join(
            ": ".join(filter(None, (".".join(map(str, one["loc"][:2])), one["msg"])))
            for one in error.errors(include_input=False, include_url=False)[:5]
        )
        raise Problem(400, "bad_body", f"The body is not what is wanted: {faults}") from error


def read_session(text: str | None) -> SessionKey:
    """Read a session key. Raise InvalidSessionKey, or Problem when it is far too long."""
    if text is not None and len(text) > KEY_CHARS:
        raise Problem(400, "bad_session", f"A session key has {KEY_CHARS} characters at most.")
    return SessionKey.parse(text)


def read_position(text: str | None) -> Position | None:
    """Read `before`: EPOCH.SEQ as an earlier answer gave it. Raise Problem."""
    if text is None:
        return None
    epoch, separator, seq = text.partition(".")
    if not separator:
        raise Problem(400, "bad_query", "before: want EPOCH.SEQ, as `older` of an answer gives it.")
    return Position(epoch=read_number("before", epoch), seq=read_number("before", seq))


def read_number(name: str, text: str) -> int:
    """Read a number of a query. Raise Problem."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Problem(400, "bad_query", f"{name}: want a whole number that is not negative.")
    return int(text)
