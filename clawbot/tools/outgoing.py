"""Files on their way from a turn to its chat: kept at once, put into the outbox with the result of
the call that sends them, so that a turn that is killed and resumed sends none twice.
"""

from __future__ import annotations

from functools import partial

from clawbot.commands.answers import answer
from clawbot.errors import ToolError
from clawbot.messages import OutboundFile, ReplyRoute
from clawbot.ports import Clock, Store, Transaction, Unit
from clawbot.store import blobs, outbox
from clawbot.store.claims import Claim
from clawbot.text import clean


class TurnFiles:
    """The files of one turn; a `tools.context.FileSender`."""

    def __init__(self, store: Store, clock: Clock, turn: Claim) -> None:
        self._store = store
        self._clock = clock
        self._turn = turn

    async def prepare(self, name: str, mime: str, data: bytes) -> Unit[None]:
        """See `tools.context.FileSender`."""
        route = self._turn.route
        if route is None:
            raise ToolError("This conversation is in no chat; people find the file where it is.")
        if route.max_file_bytes == 0:
            raise ToolError("This chat takes no files; tell people what they need in your answer.")
        if route.max_file_bytes is not None and len(data) > route.max_file_bytes:
            most = size_text(route.max_file_bytes)
            raise ToolError(f"{name} has {size_text(len(data))}; this chat takes up to {most}.")
        now_ms = self._clock.now_ms()
        digest = await blobs.keep(self._store, data, now_ms)
        file = OutboundFile(name=clean(name), mime=mime, size_bytes=len(data), blob=digest)
        return partial(_put, turn=self._turn, route=route, file=file, now_ms=now_ms)


def _put(tx: Transaction, turn: Claim, route: ReplyRoute, file: OutboundFile, now_ms: int) -> None:
    last = turn.rows[-1]
    size = size_text(file.size_bytes)
    outbox.add(
        tx,
        channel=last.channel,
        route=route,
        state="pending",
        text=answer("file_not_sent", like=last.text, name=file.name, size=size),
        now_ms=now_ms,
        session_key=str(turn.session),
        inbox_id=last.id,
        file=file,
    )


def size_text(size_bytes: int) -> str:
    """A size for people."""
    for unit, factor in (("MB", 1_000_000), ("KB", 1000)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
