"""The simulator's doors over HTTP, for tests whose program under test runs in another process.

POST /sim/script      {"steps": [{"when"?, "marker"?, "reply": {...} | "refusal": {...}}]}
POST /sim/fail        {"reply": {...} | "refusal": {...}}: the answer of the next call
POST /sim/hold        {"when"?, "marker"?, "after"?} -> {"gate": "1"}
GET  /sim/reached     ?gate=1: waits until a call stands at the gate
POST /sim/release     {"gate": "1"}, or {} for all gates
GET  /sim/requests    ?at_least=N: waits until N calls have come; then all of them
GET  /sim/violations  broken rules, unexpected calls, crashes, unused steps: empty when all is well

The fields of replies and refusals are those of `Reply` and `Refusal` in `answer.py`. Waiting
requests answer 408 after `timeout_s` (a query parameter, default 10).
"""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .answer import Answer, Refusal, Reply
from .conversation import RecordedRequest
from .server import ModelSimulator

_DEFAULT_TIMEOUT_S = 10.0


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _AnswerSpec(_Strict):
    reply: Reply | None = None
    refusal: Refusal | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "_AnswerSpec":
        if (self.reply is None) == (self.refusal is None):
            raise ValueError("give either 'reply' or 'refusal'")
        return self

    @property
    def answer(self) -> Answer:
        answer = self.reply or self.refusal
        assert answer is not None
        return answer


class _StepSpec(_AnswerSpec):
    when: str | None = None
    marker: str | None = None


class _ScriptSpec(_Strict):
    steps: list[_StepSpec]


class _HoldSpec(_Strict):
    when: str | None = None
    marker: str | None = None
    after: Annotated[int, Field(ge=0)] | None = None


class _ReleaseSpec(_Strict):
    gate: str | None = None


class Admin:
    """The HTTP doors of one simulator."""

    def __init__(self, simulator: ModelSimulator) -> None:
        self._simulator = simulator

    def application(self) -> web.Application:
        """The simulator's application with the doors added."""
        app = self._simulator.application()
        app.middlewares.append(_explain)
        app.router.add_post("/sim/script", self._script)
        app.router.add_post("/sim/fail", self._fail)
        app.router.add_post("/sim/hold", self._hold)
        app.router.add_get("/sim/reached", self._reached)
        app.router.add_post("/sim/release", self._release)
        app.router.add_get("/sim/requests", self._requests)
        app.router.add_get("/sim/violations", self._violations)
        return app

    async def _script(self, request: web.Request) -> web.Response:
        spec = _ScriptSpec.model_validate_json(await request.read())
        for step in spec.steps:
            self._simulator.expect(step.answer, when=step.when, marker=step.marker)
        return web.json_response({"steps": len(spec.steps)})

    async def _fail(self, request: web.Request) -> web.Response:
        spec = _AnswerSpec.model_validate_json(await request.read())
        self._simulator.fail_next(spec.answer)
        return web.json_response({})

    async def _hold(self, request: web.Request) -> web.Response:
        spec = _HoldSpec.model_validate_json(await request.read())
        gate = self._simulator.hold(spec.when, marker=spec.marker, after=spec.after)
        return web.json_response({"gate": gate.name})

    async def _reached(self, request: web.Request) -> web.Response:
        name = request.query.get("gate", "")
        gate = self._simulator.gate(name)
        if gate is None:
            raise web.HTTPNotFound(text=f"no gate {name!r}: create it with POST /sim/hold")
        async with asyncio.timeout(_timeout_s(request)):
            await gate.reached
        return web.json_response({})

    async def _release(self, request: web.Request) -> web.Response:
        spec = _ReleaseSpec.model_validate_json(await request.read() or b"{}")
        released = [
            gate for gate in self._simulator.gates if spec.gate is None or gate.name == spec.gate
        ]
        if spec.gate is not None and not released:
            raise web.HTTPNotFound(text=f"no gate {spec.gate!r}: create it with POST /sim/hold")
        for gate in released:
            gate.release()
        return web.json_response({"released": [gate.name for gate in released]})

    async def _requests(self, request: web.Request) -> web.Response:
        count = int(request.query.get("at_least", "0"))
        await self._simulator.wait_calls(count, timeout_s=_timeout_s(request))
        return web.json_response([_described(each) for each in self._simulator.requests])

    async def _violations(self, request: web.Request) -> web.Response:
        simulator = self._simulator
        return web.json_response(
            {
                "violations": [str(violation) for violation in simulator.violations],
                "unexpected": [_described(each) for each in simulator.unexpected],
                "crashes": [repr(crash) for crash in simulator.crashes],
                "unused": [f"{step.match} {step.answer}" for step in simulator.script.unused],
            }
        )


def _timeout_s(request: web.Request) -> float:
    return float(request.query.get("timeout_s", _DEFAULT_TIMEOUT_S))


def _described(recorded: RecordedRequest) -> dict[str, Any]:
    """A recorded request as JSON."""
    return {
        **asdict(recorded),
        "headers": dict(recorded.headers),
        "system": recorded.system,
        "last_user_text": recorded.last_user_text,
    }


@web.middleware
async def _explain(request: web.Request, handler: Any) -> web.StreamResponse:
    """Turn a caller's mistakes and expired waits into HTTP errors that say what was wrong."""
    try:
        response: web.StreamResponse = await handler(request)
    except ValidationError as error:
        raise web.HTTPBadRequest(text=str(error)) from error
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=str(error) or "the wait expired") from error
    return response
