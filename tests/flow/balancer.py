"""A load balancer: it gives each request to the next of its backends, whoever had the one before.

One that takes no connections is passed over, as one is that was taken out for an upgrade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

DROPPED = {"host", "content-length", "transfer-encoding", "connection", "content-encoding"}


@dataclass(slots=True)
class Balancer:
    """Where it listens, and how many requests each backend has answered, by its port."""

    ports: Sequence[int]
    url: str = ""
    answered: Counter[int] = field(default_factory=Counter)
    _turn: int = 0

    async def serve(self, request: web.Request, session: aiohttp.ClientSession) -> web.Response:
        """Pass one request on, and its answer back."""
        headers = {
            key: value for key, value in request.headers.items() if key.lower() not in DROPPED
        }
        body = await request.read()
        for _ in self.ports:
            self._turn += 1
            port = self.ports[self._turn % len(self.ports)]
            url = f"http://127.0.0.1:{port}{request.raw_path}"
            try:
                async with session.request(
                    request.method, url, data=body, headers=headers, allow_redirects=False
                ) as response:
                    answer = await response.read()
            except aiohttp.ClientConnectorError:
                continue
            self.answered[port] += 1
            kept = {k: v for k, v in response.headers.items() if k.lower() not in DROPPED}
            return web.Response(status=response.status, body=answer, headers=kept)
        return web.Response(status=502, text="no backend")


@asynccontextmanager
async def balancing(ports: Sequence[int]) -> AsyncIterator[Balancer]:
    """A balancer in front of these ports of this machine."""
    balancer = Balancer(ports)
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        app = web.Application(client_max_size=64 * 1024 * 1024)

        async def serve(request: web.Request) -> web.Response:
            return await balancer.serve(request, session)

        app.router.add_route("*", "/{path:.*}", serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            balancer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield balancer
        finally:
            await runner.cleanup()
