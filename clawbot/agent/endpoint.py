"""Where and how a provider is reached: what the modules that wrap its SDK are given."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2
from pydantic import SecretStr

from clawbot.agent.dialects import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and how a provider is reached.

    provider: its name in the config. is_own: whether `base_url` was given there.
    """

    provider: str
    dialect: Dialect
    base_url: str
    is_own: bool
    api_key: SecretStr
    http_client: httpx2.AsyncClient
