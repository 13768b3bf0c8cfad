"""Which addresses of the network a tool may reach: those of the public internet, and no other.

A name is resolved once, and what it was resolved to is what is connected to: between a check and
the connection no other answer can slip in.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection

from aiohttp.abc import AbstractResolver, ResolveResult

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(OSError):
    """A host is not of the public internet; an OSError, which the HTTP library lets pass."""


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, also of what it stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def check_literal(host: str, allowed: Collection[str]) -> None:
    """Raise PrivateAddress if a host is an address that may not be reached; names pass."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return
    if host not in allowed and not is_public(address):
        raise PrivateAddress(host)


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses alone. allowed: names that may be anything."""

    def __init__(self, inner: AbstractResolver, allowed: Collection[str]) -> None:
        self._inner = inner
        self._allowed = frozenset(allowed)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name. Raise PrivateAddress if it leads anywhere else, even in part."""
        found = await self._inner.resolve(host, port, family)
        if host not in self._allowed:
            for one in found:
                if not is_public(ipaddress.ip_address(one["host"].partition("%")[0])):
                    raise PrivateAddress(host)
        return found

    async def close(self) -> None:
        """See `AbstractResolver`."""
        await self._inner.close()
