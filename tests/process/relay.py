"""`python -m tests.process.relay LISTEN CONNECT PORT…`: hands connections on, port by port.

What listens on the loopback address of one network namespace can so be reached from another.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

CHUNK_BYTES = 65536


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass on what comes, until the end."""
    with suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
    sink.close()


async def serve(listen: str, connect: str, port: int) -> None:
    """Hand the connections to a port on."""

    async def hand_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(connect, port)
        except OSError:
            sink.close()
            return
        await asyncio.gather(pump(source, back), pump(there, sink))

    async with await asyncio.start_server(hand_on, listen, port) as server:
        await server.serve_forever()


async def main(listen: str, connect: str, *ports: str) -> None:
    """Serve all ports."""
    async with asyncio.TaskGroup() as group:
        for port in ports:
            group.create_task(serve(listen, connect, int(port)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
