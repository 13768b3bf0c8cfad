"""`/model`: which model answers in a conversation, among those that the admin offers."""

from __future__ import annotations

from clawbot.commands.answers import answer
from clawbot.config import Models
from clawbot.messages import Choice
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import session_admin, sessions

DEFAULT = frozenset({"default", "默认"})


def in_use(tx: Transaction, session: SessionKey, models: Models) -> str:
    """The model that answers in a session."""
    return session_admin.settings_of(tx, session).model or models.usual


def choose(
    tx: Transaction, words: str, session: SessionKey, models: Models, like: str, now_ms: int
) -> tuple[str, tuple[Choice, ...]]:
    """`/model`, `/model NAME`, `/model default`: what is answered, and what may be chosen."""
    name = words.strip("` ")
    others = [one for one in models.all if one != in_use(tx, session, models)]
    if not name:
        if not others:
            return answer("model_only", like=like, model=in_use(tx, session, models)), ()
        told = answer(
            "model_is",
            like=like,
            model=in_use(tx, session, models),
            names=", ".join(f"`{one}`" for one in others),
        )
        return told, tuple(Choice(label=one, command=f"/model {one}") for one in others)
    if name not in models.all and name.casefold() not in DEFAULT:
        names = ", ".join(f"`{one}`" for one in models.all)
        return answer("model_unknown", like=like, name=name, names=names), ()
    own = None if name.casefold() in DEFAULT or name == models.usual else name
    sessions.take_numbers(tx, session, 1, now_ms)  # makes it, if it is new
    if own is None:
        session_admin.change_settings(tx, session, {}, now_ms, unset=("model",))
    else:
        session_admin.change_settings(tx, session, {"model": own}, now_ms)
    return answer("model_set", like=like, model=own or models.usual), ()
