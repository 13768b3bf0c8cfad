"""From a verified payload to its acknowledgement: parse, commit, and only then ack.

Slack Bolt is the dispatcher. Four of its habits would lose messages and are switched off or gone
around: it acks events before the listener ran (`process_before_response`), asks auth.test on the
first event and drops the event when that fails (`authorize`), drops own messages without a reason
code (we parse them), and leaves what no listener wants without an ack, so that Slack sends it three
times more (unknown kinds are acked here).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.api import quiet_logger
from adapters.slack.facts import Facts
from adapters.slack.inbound import parse_event
from adapters.slack.order import ArrivalOrder
from adapters.slack.payload import Json, object_of, text_of
from clawbot.errors import StoreUnavailable
from clawbot.messages import Ignored, InboundMessage
from clawbot.ports import Accept

log = structlog.get_logger(__name__)

_ANY = re.compile(".*", re.DOTALL)
_USAGE = (
    "Say what you want after {command}, for example `{command} help`, `{command} status` or "
    "`{command} summarise this week`."
)


class Dispatcher:
    """Gives payloads to `accept`, in order of arrival within a chat.

    facts: what is known now. client: the Web API for Bolt's listeners. on_revoked: told when Slack
    says that the app or its token is gone.
    """

    def __init__(
        self,
        accept: Accept,
        facts: Callable[[], Facts],
        client: AsyncWebClient,
        on_revoked: Callable[[str], None],
    ) -> None:
        self._accept = accept
        self._facts = facts
        self._on_revoked = on_revoked
        self._order = ArrivalOrder()
        self._app = self._bolt_app(client)

    async def dispatch(self, payload: Json) -> BoltResponse | None:
        """Handle one payload; the answer to acknowledge with, None when it must not be acked.

        Call it in order of arrival: the place in the chat's queue is taken before it first waits.
        """
        async with self._order.turn(_chat_of(payload)):
            answer = await self._through_bolt(payload)
        if answer.status == 404:
            log.info("slack_ignored", channel=self._facts().channel, reason="no_listener")
            return BoltResponse(status=200)
        return answer if answer.status == 200 else None

    async def _through_bolt(self, payload: Json) -> BoltResponse:
        request = _bolt_request(payload)
        if request is not None:
            return await self._app.async_dispatch(request)
        answer = await self._take(parse_event(payload, self._facts()))
        return answer or BoltResponse(status=200)

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
            name="clawbot",  # else Bolt reads source files to find one
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
        app.error(self._on_error)
        app.event(_ANY)(self._on_payload)
        app.command(_ANY)(self._on_command)
        app.options(_ANY)(self._on_options)
        app.action(_ANY)(self._on_interaction)
        app.shortcut(_ANY)(self._on_interaction)
        app.view(_ANY)(self._on_interaction)
        app.view_closed(_ANY)(self._on_interaction)
        return app

    async def _on_payload(self, body: dict[str, Any]) -> BoltResponse | None:
        return await self._take(parse_event(body, self._facts()))

    async def _on_command(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse | None:
        result = parse_event(body, self._facts())
        if isinstance(result, Ignored) and result.reason == "empty":
            self._note(result)
            usage = _USAGE.format(command=text_of(body.get("command")))
            return await ack(text=usage, response_type="ephemeral")
        return await self._take(result) or await ack()

    async def _on_interaction(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
        self._note(parse_event(body, self._facts()))
        return await ack()

    async def _on_options(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
        self._note(parse_event(body, self._facts()))
        return await ack(options=[])

    async def _take(self, result: InboundMessage | Ignored) -> BoltResponse | None:
        """Commit; None lets Bolt ack, 503 makes Slack deliver again."""
        if isinstance(result, Ignored):
            self._note(result)
            return None
        try:
            await self._accept(result)
        except StoreUnavailable as error:
            log.warning("slack_not_stored", channel=result.channel, error=error)
            return BoltResponse(status=503)
        return None

    def _note(self, result: InboundMessage | Ignored) -> None:
        if not isinstance(result, Ignored):
            return
        log.info("slack_ignored", channel=self._facts().channel, reason=result.reason)
        if result.reason in {"tokens_revoked", "app_uninstalled"}:
            self._on_revoked(result.reason)

    async def _on_error(self, error: Exception) -> None:
        """The boundary of one payload: no ack, so that Slack tries again; the others go on."""
        log.error("slack_payload_failed", channel=self._facts().channel, exc_info=error)


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
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _chat_of(payload: Json) -> str:
    event = object_of(payload.get("event"))
    return text_of(event.get("channel")) or text_of(payload.get("channel_id"))
