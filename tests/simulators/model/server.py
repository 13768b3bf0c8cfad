"""The simulated model provider: an HTTP server on the loopback interface.

Speaks OpenAI Chat Completions (with the dialects of Zhipu and DeepSeek), OpenAI Responses and
Anthropic Messages. Each request is recorded, checked against the wire rules of its API, and
answered by the script, the responder, or an error that names what was not expected. It knows
nothing of the program that talks to it.
"""

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from .answer import Answer, Refusal, Reply, Usage, invalid_key
from .body import object_of
from .conversation import Dialect, RecordedRequest
from .endpoints import ENDPOINTS, Endpoint
from .rules import RecordedViolation, Strictness, estimated_tokens, prompt_tokens, violations
from .script import Gate, Hold, Match, Responder, Script, When
from .transmission import Transmission, refusal_response
from .wire import Turn

WAIT_TIMEOUT_S = 20.0
_MAX_BODY_BYTES = 64 * 1024 * 1024
_SECRET_HEADERS = {"authorization", "x-api-key"}


class ModelSimulator:
    """The server and its doors; an async context manager.

    Without `responder` every call must be expected by a step (`expect`); with one, calls that no
    step expects go to it. `keys` None accepts any key.
    """

    def __init__(
        self,
        responder: Responder | None = None,
        *,
        strictness: Strictness | None = None,
        keys: set[str] | None = None,
    ) -> None:
        self.strictness = strictness or Strictness()
        self.keys = keys
        self.script = Script()
        self.requests: list[RecordedRequest] = []
        self.violations: list[RecordedViolation] = []
        self.unexpected: list[RecordedRequest] = []
        self.crashes: list[Exception] = []
        self._responder = responder
        self._holds: list[Hold] = []
        self._next: list[Answer] = []
        self._tools: Any = None
        self._changed = asyncio.Condition()
        self._open: set[asyncio.Task[Any]] = set()
        self._ids = 0
        self._runner: web.AppRunner | None = None
        self._origin = ""

    # --- life cycle ---

    def application(self) -> web.Application:
        """The web application with all model endpoints."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        for endpoint in ENDPOINTS.values():
            app.router.add_post(endpoint.base + endpoint.path, self._handler(endpoint))
        return app

    async def start(self, app: web.Application | None = None, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 takes a free one."""
        # A client that goes away must cancel its answer, as it would at a provider.
        self._runner = web.AppRunner(
            app or self.application(),
            handler_cancellation=True,
            shutdown_timeout=1.0,
            access_log=None,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, bound_port = self._runner.addresses[0][:2]
        self._origin = f"http://{host}:{bound_port}"

    async def stop(self) -> None:
        """End open answers and close the server; may be called twice."""
        for task in list(self._open):
            task.cancel()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def base_url(self, provider: str = "openai-chat") -> str:
        """The base URL to configure for a provider: a key of `ENDPOINTS`."""
        return self._origin + ENDPOINTS[provider].base

    @property
    def admin_url(self) -> str:
        """Where the HTTP doors of `admin.py` are, if its application is the one served."""
        return f"{self._origin}/sim"

    # --- doors ---

    def expect(self, answer: Answer, *, when: When = None, marker: str | None = None) -> None:
        """Expect one more call; see `Match` for `when` and `marker`."""
        self.script.add(answer, Match(when=when, marker=marker))

    def fail_next(self, answer: Answer) -> None:
        """Give this answer to the next call, whatever it is, before any step."""
        self._next.append(answer)

    def hold(
        self, when: When = None, *, marker: str | None = None, after: int | None = None
    ) -> Gate:
        """Hold the next matching call.

        `after` None is before the response headers, a number is after so many deltas; a gate
        beyond the last delta stands before the finish.
        """
        gate = Gate(f"{len(self._holds) + 1}")
        self._holds.append(Hold(match=Match(when=when, marker=marker), after=after, gate=gate))
        return gate

    @property
    def gates(self) -> list[Gate]:
        """All gates, in the order in which they were made."""
        return [hold.gate for hold in self._holds]

    def gate(self, name: str) -> Gate | None:
        """The gate of that name, as `hold` returned it."""
        return next((gate for gate in self.gates if gate.name == name), None)

    @property
    def last_user_text(self) -> str:
        """The newest user text of the newest request, empty before the first."""
        return self.requests[-1].last_user_text if self.requests else ""

    async def wait_calls(self, count: int, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until `count` requests have come in all."""
        await self.wait_until(
            lambda: len(self.requests) >= count, f"{count} model calls", timeout_s=timeout_s
        )

    async def wait_until(
        self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_TIMEOUT_S
    ) -> None:
        """Wait for a state of the simulator; TimeoutError says what did not happen."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError as error:
            raise TimeoutError(
                f"no {what} within {timeout_s:g} s; {len(self.requests)} calls came, outcomes "
                f"{[request.outcome for request in self.requests]}, unexpected "
                f"{len(self.unexpected)}, violations {[str(each) for each in self.violations]}"
            ) from error

    def assert_done(self) -> None:
        """Fail on a broken rule, an unexpected or crashed call, and a step never used."""
        problems = [str(violation) for violation in self.violations]
        problems += [
            f"unexpected call {request.number}: {request.last_user_text[:80]!r}"
            for request in self.unexpected
        ]
        problems += [f"crash in an answer: {crash!r}" for crash in self.crashes]
        problems += [f"unused step: {step.match} {step.answer}" for step in self.script.unused]
        if problems:
            raise AssertionError("model simulator: " + "; ".join(problems))

    # --- one call ---

    def _handler(self, endpoint: Endpoint) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            task = asyncio.current_task()
            assert task is not None
            self._open.add(task)
            try:
                return await self._serve(endpoint, request)
            finally:
                self._open.discard(task)

        return handle

    async def _serve(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        try:
            body = json.loads(await request.read())
        except ValueError:
            body = None
        if not isinstance(body, dict):
            refusal = Refusal(
                status=400, message="We could not parse the JSON body of your request."
            )
            return refusal_response(endpoint.wire, refusal)
        self._share_tools(body)
        recorded = self._record(endpoint, body, request.headers)
        async with self._tracked(recorded):
            objection = self._objection(endpoint, recorded, request.headers)
            if objection is not None:
                overflown = objection.error_kind == "overflow"
                recorded.outcome = "overflow" if overflown else "refused"
                return refusal_response(endpoint.wire, objection)
            hold = self._take_hold(recorded)
            if hold is not None and hold.after is None:
                await hold.gate.pass_through()
            answer = await self._choose(recorded)
            if isinstance(answer, Refusal):
                recorded.outcome = "refused"
                return refusal_response(endpoint.wire, answer)
            turn = self._turn(endpoint, recorded, answer)
            return await Transmission(endpoint.wire, turn, hold).send(request)

    def _share_tools(self, body: dict[str, Any]) -> None:
        """Keep the tools that request after request repeats once: they are the most of each."""
        if "tools" not in body:
            return
        if body["tools"] == self._tools:
            body["tools"] = self._tools
        else:
            self._tools = body["tools"]

    def _record(
        self, endpoint: Endpoint, body: dict[str, Any], headers: Mapping[str, str]
    ) -> RecordedRequest:
        recorded = RecordedRequest(
            number=len(self.requests) + 1,
            api=endpoint.api,
            dialect=endpoint.dialect,
            model=str(body.get("model")),
            streamed=bool(body.get("stream")),
            conversation=endpoint.wire.read(body),
            body=body,
            headers={
                name: "<redacted>" if name.lower() in _SECRET_HEADERS else value
                for name, value in headers.items()
            },
            at=time.monotonic(),
        )
        self.requests.append(recorded)
        return recorded

    @asynccontextmanager
    async def _tracked(self, recorded: RecordedRequest) -> AsyncIterator[None]:
        """Tell waiters of the call when it comes and when it ends."""
        await self._notify()
        try:
            yield
            if recorded.outcome == "open":
                recorded.outcome = "answered"
        except (asyncio.CancelledError, ConnectionError):
            if recorded.outcome == "open":
                recorded.outcome = "disconnected"
            raise
        except Exception as error:
            # A predicate, responder or reply of the test itself is at fault: the test must hear it.
            recorded.outcome = "crashed"
            self.crashes.append(error)
            raise
        finally:
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _objection(
        self, endpoint: Endpoint, recorded: RecordedRequest, headers: Mapping[str, str]
    ) -> Refusal | None:
        """What the provider refuses before its model sees the request."""
        key = headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")
        if self.keys is not None and key not in self.keys:
            return invalid_key()
        strictness = self._strictness(endpoint.dialect, recorded.body)
        found = violations(endpoint.api, recorded.body, strictness)
        self.violations += [
            RecordedViolation(request=recorded.number, violation=each) for each in found
        ]
        if found:
            return Refusal(status=400, message=found[0].message)
        limit = strictness.context_tokens
        size = prompt_tokens(recorded.body) if limit is not None else 0
        if limit is not None and size > limit:
            return Refusal(
                status=400, kind="overflow", message=endpoint.overflow_words(size, limit)
            )
        return None

    def _strictness(self, dialect: Dialect, body: dict[str, Any]) -> Strictness:
        if dialect == "zai":
            return replace(self.strictness, content_required=True)
        if dialect == "deepseek":
            # DeepSeek wants the reasoning back in its thinking mode only.
            switch = object_of(body.get("thinking")).get("type")
            thinks = body.get("model") != "deepseek-chat" if switch is None else switch == "enabled"
            return replace(self.strictness, reasoning_content=thinks)
        return self.strictness

    def _take_hold(self, recorded: RecordedRequest) -> Hold | None:
        for hold in self._holds:
            if not hold.used and hold.match.accepts(recorded):
                hold.used = True
                return hold
        return None

    async def _choose(self, recorded: RecordedRequest) -> Answer:
        if self._next:
            return self._next.pop(0)
        scripted = self.script.take(recorded)
        if scripted is not None:
            return scripted
        if self._responder is not None:
            answer = self._responder(recorded)
            return await answer if inspect.isawaitable(answer) else answer
        self.unexpected.append(recorded)
        message = f"model simulator: no step expects call {recorded.number}"
        return Refusal(status=500, kind="server", message=message)

    def _turn(self, endpoint: Endpoint, recorded: RecordedRequest, reply: Reply) -> Turn:
        ids = []
        for call in reply.tool_calls:
            self._ids += 1
            fresh = f"{endpoint.wire.call_prefix}{self._ids:06d}"
            ids.append(fresh if call.id is None else call.id)
        usage = reply.usage or Usage(
            input_tokens=prompt_tokens(recorded.body),
            output_tokens=estimated_tokens([*_said(reply)]),
        )
        return Turn(
            id=f"resp-{recorded.number:06d}",
            request=recorded,
            reply=reply,
            call_ids=tuple(ids),
            usage=usage,
        )


def _said(reply: Reply) -> list[str]:
    text = reply.text if isinstance(reply.text, str) else "".join(reply.text)
    return [text, *("".join(call.pieces) for call in reply.tool_calls)]
