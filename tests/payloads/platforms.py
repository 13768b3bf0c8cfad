"""What the module of a platform offers to the runner: three functions, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from clawbot.ports import Accept, ChannelAdapter, Clock
from tests.payloads.rows import Row
from tests.payloads.stub_api import ApiCall

PLATFORMS = ("slack", "feishu", "wechat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the platform was answered: an HTTP status and body, or the frame sent back."""

    http: int | None = None
    response: Any = None


class Platform(Protocol):
    """A module such as `tests.payloads.slack`."""

    def channel_keys(self, row: Row, api_url: str) -> Mapping[str, Any]:
        """The channel's section of the YAML: its `type`, secrets, ids, and where the API is."""
        ...

    def answer_call(self, row: Row, call: ApiCall) -> tuple[int, Any]:
        """What the platform's API says, from the row's own ids and names; else its failure."""
        ...

    async def push(self, adapter: ChannelAdapter, accept: Accept, row: Row, clock: Clock) -> Given:
        """Push the row through the adapter's real entry; return when the platform is answered."""
        ...


def platform(name: str) -> Platform:
    """The module of a platform."""
    return cast("Platform", import_module(f"tests.payloads.{name}"))
