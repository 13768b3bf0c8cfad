"""What a session may have of its own: a model, a temperature, bounds of its turns; pure.

A session's own value counts before its channel's, and that before the general one; what is unset is
inherited anew for each turn. Where settings are kept stands in `clawbot.store.session_admin`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from pydantic import ValidationError

from clawbot.config import Config
from clawbot.config_sections import ModelName, TurnOverrides
from clawbot.errors import InvalidSettings
from clawbot.queueing import QueuePolicy
from clawbot.session_key import SessionKey

log = structlog.get_logger(__name__)


class SessionSettings(TurnOverrides):
    """A session's own settings; None = inherited."""

    model: ModelName | None = None
    """The model that answers in this session."""
    queue: QueuePolicy | None = None
    """What happens to messages that arrive while it is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """What one turn is run with, settled; see `config_sections.TurnsConfig` for the bounds."""

    model: str
    temperature: float | None
    max_steps: int
    max_output_tokens: int
    request_tokens: int | None
    history_messages: int
    thinking: str | None
    plan: bool


def settle(config: Config, channel: str, own: SessionSettings) -> TurnSettings:
    """The settings of a turn: the session's own, else the channel's, else the general ones."""
    section = config.channels.get(channel)
    levels = (own, section.turns if section else TurnOverrides(), config.turns)

    def first(name: str, *, of: tuple[object, ...] = levels) -> object:
        values = (getattr(level, name) for level in of)
        return next((value for value in values if value is not None), None)

    return TurnSettings(
        model=own.model or config.model_of(channel),
        **{name: first(name) for name in TurnOverrides.model_fields},  # type: ignore[arg-type]
    )


def queue_of(
    config: Config, session: SessionKey, channel: str, own: SessionSettings
) -> QueuePolicy:
    """The queue policy of a session: its own, else that of its channel."""
    section = config.channels.get(session.channel or channel)
    return own.queue or (section.policy.queue.policy if section else "collect")


def changed(
    own: SessionSettings, values: Mapping[str, object], unset: tuple[str, ...] = ()
) -> SessionSettings:
    """Settings with some of them given, and others inherited again.

    Raise InvalidSettings that names each problem.
    """
    known = SessionSettings.model_fields
    if unknown := [name for name in (*values, *unset) if name not in known]:
        raise InvalidSettings(
            f"settings {', '.join(unknown)}: unknown; there are {', '.join(sorted(known))}"
        )
    data = own.model_dump(exclude_none=True) | dict(values)
    for name in unset:
        data.pop(name, None)
    try:
        return SessionSettings.model_validate_json(json.dumps(data))
    except ValidationError as error:
        problems = [f"setting {item['loc'][0]}: {item['msg']}" for item in error.errors()]
        raise InvalidSettings("; ".join(problems)) from error


def stored(own: SessionSettings) -> dict[str, object] | None:
    """Settings as the store keeps them."""
    return own.model_dump(exclude_none=True) or None


def restored(data: Mapping[str, object] | None) -> SessionSettings:
    """Settings from the store. What this clawbot does not know, or refuses by now, is inherited."""
    if not data:
        return SessionSettings()
    known = {name: value for name, value in data.items() if name in SessionSettings.model_fields}
    try:
        return SessionSettings.model_validate_json(json.dumps(known))
    except ValidationError as error:
        bad = {str(item["loc"][0]) for item in error.errors()}
        log.warning("session_settings_ignored", names=sorted(bad))
        return restored({name: value for name, value in known.items() if name not in bad})
