"""What the adapter knows about Feishu when it reads a payload, as values. No network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adapters.payload import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who we are. An empty text means not known (yet); nothing is concluded from it.

    open_id: the bot's, as this app sees it; another app has another id for the same bot.
    """

    open_id: str = ""
    app_id: str = ""
    name: str = ""

    def is_us(self, user_id: str) -> bool:
        """Whether an id is ours; messages of an app carry its app id instead of an open_id."""
        return bool(user_id) and user_id in {self.open_id, self.app_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that `inbound` needs besides the payload.

    channel: our name of this account. answers_all: whether `@all` means us too. quotes: whether
        answers in groups quote.
    users: names by id; a missing id is unknown and worth asking for, an empty name is known to have
        none.
    messages: by message id, what the API says of it: the message and, of a merged forward, all
        that is in it. Empty = it cannot be had.
    topic_chats: which groups consist of topics.
    direct_chats: the direct chats of people, as far as they are known.
    menu: what the entries of the bot's menu say, by their event key.
    """

    channel: str
    identity: Identity = field(default_factory=Identity)
    answers_all: bool = False
    quotes: bool = True
    users: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    topic_chats: Mapping[str, bool] = field(default_factory=dict)
    direct_chats: Mapping[str, str] = field(default_factory=dict)
    menu: Mapping[str, str] = field(default_factory=dict)
