"""`/plan`: whether a conversation is in plan mode."""

from __future__ import annotations

from clawbot.commands.answers import answer
from clawbot.commands.grammar import PLAN_ON
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import session_admin, sessions


def plan(
    tx: Transaction, words: str, session: SessionKey, like: str, now_ms: int, *, usual: bool
) -> str:
    """`/plan`, `/plan on`, `/plan off`. usual: what counts where nobody chose."""
    own = session_admin.settings_of(tx, session).plan
    if not words:
        is_on = usual if own is None else own
        return answer("plan_is_on" if is_on else "plan_is_off", like=like)
    wanted = words.casefold() in PLAN_ON
    sessions.take_numbers(tx, session, 1, now_ms)  # makes it, if it is new
    session_admin.change_settings(tx, session, {"plan": wanted}, now_ms)
    return answer("plan_on" if wanted else "plan_off", like=like)
