"""The exceptions of clawbot, classified by the reaction they ask for.

A class's docstring is its default message. Whoever shows an error to a chat user shows a short text
and an error id, never `str(error)`.
"""

from __future__ import annotations

import errno
import uuid

from clawbot.history import Usage


def new_error_id() -> str:
    """A short id by which a person and the log speak of the same fault."""
    return uuid.uuid4().hex[:8]


class ClawbotError(Exception):
    """Something in clawbot failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


# -- tell the operator, then end -------------------------------------------------------------------


class ConfigError(ClawbotError):
    """The configuration cannot be used."""

    def __init__(self, problems: list[str] | str) -> None:
        self.problems = [problems] if isinstance(problems, str) else problems
        super().__init__("\n".join(self.problems))


class StartupError(ClawbotError):
    """A part cannot start: a port is taken, a directory read-only, or another daemon holds it."""


class StoreAway(StartupError):
    """The database cannot be reached, or takes no writes; it may come back by itself."""


def startup_error_of(error: OSError) -> type[StartupError]:
    """StoreAway where the disk is full or was made read-only, which passes; else StartupError."""
    passes = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
    return StoreAway if error.errno in passes else StartupError


class SchemaMismatch(StartupError):
    """The database was made by a newer clawbot; upgrade this one."""


# -- the caller's input ----------------------------------------------------------------------------


class InvalidSessionKey(ClawbotError, ValueError):
    """Not a session key."""


class RequestRefused(ClawbotError):
    """What somebody asked for cannot be done; the message says why and what to do."""


class NoSuchSession(RequestRefused):
    """There is no such session."""


class SessionTaken(RequestRefused):
    """A session of this key exists already."""


class WorkDirsDiffer(RequestRefused):
    """The session works in other directories."""


class InvalidSettings(RequestRefused, ValueError):
    """Not settings that a session can have."""


class SessionBusy(RequestRefused):
    """A turn runs in the session."""


# -- the store -------------------------------------------------------------------------------------


class StoreUnavailable(ClawbotError):
    """The store cannot be written now; nothing was changed, try again."""


class LeaseLost(ClawbotError):
    """Another process took this session over; write nothing more for it."""


class TurnParked(ClawbotError):
    """This turn waits for people; end it without an answer, it goes on when they have decided."""


class TurnStopped(ClawbotError):
    """Somebody stopped this turn; end it without further steps."""


# -- sending to a platform -------------------------------------------------------------------------


class SendError(ClawbotError):
    """A message could not be sent."""


class NotSent(SendError):
    """The platform surely did not take the message; it may be sent again.

    `retry_after_s` is the platform's own wish (for example its Retry-After header), if any.
    """

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Rejected(SendError):
    """The platform refuses this message for good; `code` is the platform's own."""

    def __init__(self, message: str | None = None, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class OutcomeUnknown(SendError):
    """The platform may or may not have taken the message (a time-out, a broken connection)."""


class WindowClosed(SendError):
    """The platform allows no answer here until the person writes again; hold the reply."""


# -- files -----------------------------------------------------------------------------------------


class NotLoaded(ClawbotError):
    """A file of a message could not be loaded; the text says why, to the model and to people."""


# -- an adapter's connection -----------------------------------------------------------------------


class ChannelBroken(ClawbotError):
    """The platform refuses this account (bad or revoked token, app removed); an admin must act."""


# -- the agent -------------------------------------------------------------------------------------


class ModelError(ClawbotError):
    """The model call failed.

    `kind` is one of retryable, rate_limited, auth, quota, overflow, no_room (our own fixed part
    fills the model's window), invalid, refused, budget_session, budget_user, budget_day (the money
    or tokens that the admin allows are spent); it decides what the loop does and which short text
    the chat sees. `usage` is what the call cost all the same, if the provider said so.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        kind: str,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.usage = usage


class ToolError(ClawbotError):
    """The tool could not do it; the text is an observation for the model.

    `kind` is one of `tools.hints`, which knows what may be done about it; "" = of no known class.
    """

    def __init__(self, message: str | None = None, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind
