"""From a verified payload to its acknowledgement: parse, commit, and only then ack.

Slack Bolt is the dispatcher. Four of its habits would lose messages and are switched off or gone
around: it acks events before the listener ran (`process_before_response`), asks auth.test on the
first event and drops the event when that fails (`authorize`), drops own messages without a reason
code (we parse them), and leaves what no listener wants without an ack, so that Slack sends it three
times more (unknown kinds are acked here).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from adapters.order import ArrivalOrder
from adapters.payload import Json, object_of, text_of
from adapters.slack.amendments import read_amendment
from adapters.slack.api import quiet_logger
from adapters.slack.facts import Facts
from adapters.slack.inbound import parse_event
from clawbot.errors import StoreUnavailable
from clawbot.messages import Ignored
from clawbot.ports import Accept, Amend

log = structlog.get_logger(__name__)

_NOT_STORED = 503
_ANY = re.compile(".*", re.DOTALL)
_USAGE = (
    "Say what you want after {command}, for example `{command} help`, `{command} status` or "
    "`{command} summarise this week`."
)


class Dispatcher:
    """Gives payloads to `accept`, in order of arrival within a chat.

    facts: what is known now. client: the Web API for Bolt's listeners. on_revoked: told when Slack
    says that the app or its token is gone. amend: given what people change afterwards.
    notice: given events of the app's own surfaces.
    """

    def __init__(
        self,
        accept: Accept,
        facts: Callable[[], Facts],
        client: AsyncWebClient,
        on_revoked: Callable[[str], None],
        amend: Amend | None = None,
        notice: Callable[[Json], None] | None = None,
    ) -> None:
        self._accept = accept
        self._facts = facts
        self._on_revoked = on_revoked
        self._amend = amend
        self._notice = notice
        self._order = ArrivalOrder()
        self._app = self._bolt_app(client)

    async def dispatch(self, payload: Json) -> BoltResponse | None:
        """Handle one payload; the answer to acknowledge with, None when it must not be acked.

        Call it in order of arrival: the place in the chat's queue is taken before it first waits.
        """
        async with self._order.turn(_chat_of(payload)):
            answer = await self._through_bolt(payload)
        return answer if answer.status == 200 else None

    async def _through_bolt(self, payload: Json) -> BoltResponse:
        request = _bolt_request(payload)
        if request is not None:
            try:
                answer = await self._app.async_dispatch(request)
            except Exception:
                log.exception("slack_bolt_failed", channel=self._facts().channel)
            else:
                if answer.status in {200, _NOT_STORED}:
                    return answer
        # Bolt has no listener for it, or tripped over its types: a message in it is still taken.
        return await self._take(payload) or BoltResponse(status=200)

    def _bolt_app(self, client: AsyncWebClient) -> AsyncApp:
        async def authorize() -> AuthorizeResult:
            """Who we are, from our own auth.test; Bolt takes plain functions only."""
            ours = self._facts().identity
            return AuthorizeResult(
                enterprise_id=None,
                team_id=next(iter(ours.team_ids), None),
                bot_user_id=next(iter(ours.user_ids), None),
                bot_id=next(iter(ours.bot_ids), None),
            )

        app = AsyncApp(
            # Without a name Bolt reads source files to find one; and it names a logger after it,
            # which is quiet as ours is: so it must not be the name of anybody else's.
            name=quiet_logger().name,
            client=client,
            signing_secret="",
            authorize=authorize,
            process_before_response=True,
            request_verification_enabled=False,
            ignoring_self_events_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            attaching_conversation_kwargs_enabled=False,
            logger=quiet_logger(),
        )
        app.event(_ANY)(self._on_event)
        app.command(_ANY)(self._on_command)
        app.options(_ANY)(self._on_options)
        app.action(_ANY)(self._on_interaction)
        app.shortcut(_ANY)(self._on_interaction)
        app.view(_ANY)(self._on_interaction)
        app.view_closed(_ANY)(self._on_interaction)
        return app

    async def _on_event(self, body: dict[str, Any]) -> BoltResponse | None:
        return await self._take(body)  # Bolt acks when it is None

    async def _on_command(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
        result = parse_event(body, self._facts())
        if isinstance(result, Ignored) and result.reason == "empty":
            usage = _USAGE.format(command=text_of(body.get("command")))
            return await ack(text=usage, response_type="ephemeral")
        return await self._take(body) or await ack()

    async def _on_interaction(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
        return await self._take(body) or await ack()

    async def _on_options(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
        return await self._take(body) or await ack(options=[])

    async def _take(self, payload: Json) -> BoltResponse | None:
        """Commit what it says; None when it may be acked, else the answer that makes Slack send it
        again. The boundary of one payload: its failure disturbs no other.
        """
        channel = self._facts().channel
        try:
            result = parse_event(payload, self._facts())
            if isinstance(result, Ignored):
                await self._pass_on(result, payload)
            else:
                await self._accept(result)
        except StoreUnavailable as error:
            log.warning("slack_not_stored", channel=channel, error=str(error))
            return BoltResponse(status=_NOT_STORED)
        except Exception:
            log.exception("slack_payload_failed", channel=channel)
            return BoltResponse(status=_NOT_STORED)
        return None

    async def _pass_on(self, result: Ignored, payload: Json) -> None:
        """What is no message may still matter."""
        self._note(result)
        if self._notice is not None and result.reason in {"assistant_event", "not_a_message"}:
            self._notice(payload)
        if self._amend is not None and result.reason in {"edit", "deletion"}:
            amendment = read_amendment(payload, self._facts())
            if amendment is not None:
                await self._amend(amendment)

    def _note(self, result: Ignored) -> None:
        # Our own posts and their edits come back as events, one a second while a reply grows.
        level = logging.DEBUG if result.reason in {"self", "edit"} else logging.INFO
        log.log(level, "slack_ignored", channel=self._facts().channel, reason=result.reason)
        if result.reason in {"tokens_revoked", "app_uninstalled"}:
            self._on_revoked(result.reason)


def _bolt_request(payload: Json) -> AsyncBoltRequest | None:
    """The payload for Bolt; None for one with types that Bolt would trip over."""
    event = payload.get("event")
    kinds = [payload.get("command", payload.get("type"))]
    kinds += [object_of(event).get("type")] if payload.get("type") == "event_callback" else []
    if not all(map(text_of, kinds)):
        return None
    try:
        # The mode in which Bolt takes a parsed body; signatures are checked before.
        return AsyncBoltRequest(body=dict(payload), mode="socket_mode")
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _chat_of(payload: Json) -> str:
    event = object_of(payload.get("event"))
    return text_of(event.get("channel")) or text_of(payload.get("channel_id"))
