"""What happens to messages that arrive while their session is busy: the rules, as values.

collect: what waits is answered together in the next turn, as far as one person wrote it in a row.
followup: each message has a turn of its own.
steer: what the person whose turn runs writes joins that turn, between two of its steps.
interrupt: it cuts that turn short, and one new turn answers all.

Whatever anybody else writes waits for the next turn under every policy: nobody speaks with another
one's authority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DEFAULT_POOL = "default"

QueuePolicy = Literal["collect", "followup", "steer", "interrupt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The rules of a channel; see the keys of the same names in `config_sections.ChannelKeys`.

    pool: the workers that run the turns.
    """

    policy: QueuePolicy = "collect"
    debounce_ms: int = 0
    limit: int = 50
    pool: str | None = None


USUAL_RULES = QueueRules()
"""Of channels without configuration."""
