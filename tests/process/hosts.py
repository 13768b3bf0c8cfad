"""Hosts of a cluster, as network namespaces: two networks, each host with a link in both.

One network leads to the database, the other one to the world, where the simulators are. A link
that is taken down swallows everything, as a broken switch does. Needs root; nothing is left behind.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from tests.process.relay import serve

RELAY = (sys.executable, "-m", "tests.process.relay")


def ip(*arguments: str) -> None:
    """Run `ip`; what it complains about is told."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A namespace. database: its address in the database's network."""

    name: str
    database: str
    database_link: str
    world_link: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """What runs a command there."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Take its link to the database away."""
        ip("link", "set", "dev", self.database_link, "down")

    def heal(self) -> None:
        """Let it reach the database again."""
        ip("link", "set", "dev", self.database_link, "up")

    def lose_power(self) -> None:
        """Take both links away and kill all that runs: nobody is told."""
        self.cut()
        ip("link", "set", "dev", self.world_link, "down")
        end_all(self.name)


def end_all(namespace: str) -> None:
    """Kill whatever runs in a namespace, also what its starter has lost sight of."""
    listed = subprocess.run(
        ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
    )
    for pid in listed.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), 9)


class Network:
    """The two networks and the hosts in them; made and removed by `open_network`."""

    def __init__(self) -> None:
        # Unlike those of other tests that run now, and short enough for the kernel.
        number = os.getpid()
        self._tag = f"cb{number % 10_000}"
        self._subnets = {name: f"10.{64 + at}.{number % 250}" for at, name in enumerate("dw")}
        self._made: list[tuple[str, ...]] = []

    def make(self, count: int) -> list[Host]:
        """Make everything."""
        for name, subnet in self._subnets.items():
            bridge = f"{self._tag}{name}"
            self._add(("link", bridge), "type", "bridge")
            ip("addr", "add", f"{subnet}.254/24", "dev", bridge)
            ip("link", "set", "dev", bridge, "up")
        return [self._host(number) for number in range(1, count + 1)]

    def world(self) -> str:
        """The address at which hosts reach the world."""
        return f"{self._subnets['w']}.254"

    def remove(self) -> None:
        """Remove what was made."""
        for kind, name in reversed(self._made):
            if kind == "netns":
                end_all(name)
            subprocess.run(["ip", kind, "del", name], capture_output=True, check=False)
        self._made.clear()

    def _host(self, number: int) -> Host:
        name = f"{self._tag}h{number}"
        self._add(("netns", name))
        ip("-n", name, "link", "set", "lo", "up")
        links = {}
        for kind, subnet in self._subnets.items():
            links[kind] = f"{name}{kind}"
            inside = f"to-{kind}"
            peer = ("type", "veth", "peer", "name", inside, "netns", name)
            self._add(("link", links[kind]), *peer)
            ip("link", "set", "dev", links[kind], "master", f"{self._tag}{kind}", "up")
            ip("-n", name, "addr", "add", f"{subnet}.{number}/24", "dev", inside)
            ip("-n", name, "link", "set", "dev", inside, "up")
        return Host(
            name=name,
            database=f"{self._subnets['d']}.{number}",
            database_link=links["d"],
            world_link=links["w"],
        )

    def _add(self, thing: tuple[str, str], *more: str) -> None:
        ip(thing[0], "add", thing[1], *more)
        self._made.append(thing)


@asynccontextmanager
async def open_network(count: int, ports: Sequence[int]) -> AsyncIterator[list[Host]]:
    """So many hosts, each of which finds on its loopback address what listens on ours."""
    network = Network()
    try:
        hosts = await asyncio.to_thread(network.make, count)
        world = network.world()
        async with AsyncExitStack() as stack:
            for port in ports:
                task = asyncio.create_task(serve(world, "127.0.0.1", port), name=f"relay {port}")
                stack.callback(task.cancel)
            for host in hosts:
                relay = await asyncio.create_subprocess_exec(
                    *(*host.prefix, *RELAY, "127.0.0.1", world, *map(str, ports))
                )
                stack.push_async_callback(_end, relay)
            yield hosts
    finally:
        await asyncio.to_thread(network.remove)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
