"""What the adapter knows about Slack when it reads a payload, as values. No network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SLASH_TOKEN = "slash"  # noqa: S105  # a route's mark, no secret
"""Marks the reply route of slash words: the reply is a root post that opens their thread."""


SCOPES = frozenset(
    {
        "app_mentions:read",
        "assistant:write",
        "channels:history",
        "channels:read",
        "chat:write",
        "commands",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "mpim:history",
        "reactions:write",
        "usergroups:read",
        "users:read",
    }
)
"""What the app's manifest asks for; README says what is missing without each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who we are. Empty sets and texts mean not known (yet); nothing is concluded from them.

    team_ids: our workspace, and the Enterprise organisation if there is one.
    """

    user_ids: frozenset[str] = frozenset()
    bot_ids: frozenset[str] = frozenset()
    app_id: str = ""
    team_ids: frozenset[str] = frozenset()
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that `inbound` needs besides the payload.

    channel: our name of this account. users, channels, groups: names by Slack id; a missing id is
    unknown and worth asking for, an empty name is known to have none. viewing: the channel that a
    person looks at beside an assistant's thread, by `chat:thread`.
    """

    channel: str
    identity: Identity = field(default_factory=Identity)
    users: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    viewing: Mapping[str, str] = field(default_factory=dict)
