"""A payload that was kept in a file, read as if Slack had just sent it. Pure: no network."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.slack.config import SlackConfig
from adapters.slack.facts import Facts
from adapters.slack.http import is_signed, parse_body
from adapters.slack.inbound import parse_event
from clawbot.messages import Ignored, InboundMessage

_FORM = "application/x-www-form-urlencoded"


def read_recorded(
    headers: Mapping[str, str], body: bytes, config: SlackConfig, facts: Facts
) -> InboundMessage | Ignored:
    """Read JSON (an event, a Socket Mode envelope) or a form (a slash command, an interaction).

    A signature is checked as of the time at which it was made; without one nothing is checked.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    if not _is_genuine(lower, body, config):
        return Ignored(reason="bad_signature")
    is_json = body.lstrip().startswith((b"{", b"["))
    content_type = lower.get("content-type", "application/json" if is_json else _FORM)
    try:
        payload = parse_body(content_type, body)
    except (ValueError, RecursionError):
        return Ignored(reason="unreadable_body")
    return parse_event(payload, facts)


def _is_genuine(lower: Mapping[str, str], body: bytes, config: SlackConfig) -> bool:
    if "x-slack-signature" not in lower:
        return True
    stamp = lower.get("x-slack-request-timestamp", "")
    if config.signing_secret is None or not (stamp.isascii() and stamp.isdigit()):
        return False
    return is_signed(lower, body, config.signing_secret.get_secret_value(), int(stamp[:20]))
