"""The web part on a real store and port, beside a worker whose turns the test scripts."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import SecretStr

from clawbot.agent.calling import Timing
from clawbot.agent.loop import Answer
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.config_sections import WebConfig
from clawbot.history import Entry, EntryKind, ToolCall
from clawbot.journal import StoreJournal
from clawbot.lease import Heartbeat
from clawbot.ports import Reporter, Store
from clawbot.store import engine
from clawbot.store.claims import Claim
from clawbot.store.migrate import upgrade
from clawbot.tools.approvals import TurnApprovals
from clawbot.web.part import WebPart
from clawbot.worker import Worker, WorkerLimits

TOKEN = "a-token-of-the-tests"
WAIT_S = 20.0

Turn = Callable[["Script"], Awaitable[str]]


class Script:
    """One turn as a test plays it: show text, use tools, answer."""

    def __init__(self, claim: Claim, journal: StoreJournal, reporter: Reporter) -> None:
        self.asked = claim.rows[-1].text
        self.session = str(claim.session)
        self._claim = claim
        self._journal = journal
        self._reporter = reporter
        self._step = 0
        self.texts: list[str] = []

    def shows(self, text: str) -> None:
        """Live text of this step."""
        self._reporter.text("\n\n".join([*self.texts, text]))

    async def uses(self, tool: str, arguments: str, result: str, *, is_error: bool = False) -> None:
        """A step with one tool call."""
        call = f"call-{self._step}"
        await self._record(EntryKind.TOOL_CALL, call_id=call, tool=tool, arguments=arguments)
        self._reporter.progress(f"{tool} {arguments}")
        await self._record(
            EntryKind.TOOL_RESULT, call_id=call, tool=tool, text=result, is_error=is_error
        )
        self._reporter.progress("")
        self._step += 1

    async def asks(self, store: Store, tool: str, arguments: str, question: str) -> None:
        """A step with a call that people must decide about: the turn is parked."""
        turn = self._claim.turn_id
        (call,) = await self._journal.record(
            [
                Entry(
                    kind=EntryKind.TOOL_CALL,
                    call_id="asked",
                    tool=tool,
                    arguments=arguments,
                    turn_id=turn,
                    step=self._step,
                )
            ]
        )
        approvals = TurnApprovals(store, SystemClock(), self._claim, 60)
        made = ToolCall(call_id="asked", tool=tool, arguments=arguments, seq=call.seq)
        await approvals.ask(made, question)

    async def says(self, text: str) -> None:
        """A step's text that is recorded before the turn goes on."""
        await self._record(EntryKind.ASSISTANT, text=text)
        self.texts.append(text)

    async def _record(self, kind: EntryKind, **values: Any) -> None:
        turn = self._claim.turn_id
        await self._journal.record([Entry(kind=kind, turn_id=turn, step=self._step, **values)])

    def answer(self, text: str) -> Answer:
        turn = self._claim.turn_id
        last = Entry(kind=EntryKind.ASSISTANT, text=text, turn_id=turn, step=self._step)
        return Answer(entries=(last,), texts=(*self.texts, text))


class ScriptedRunner:
    """Runs turns by the test's functions, in order; without one it echoes."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    async def run(
        self, claim: Claim, journal: StoreJournal, reporter: Reporter, timing: Timing
    ) -> Answer:
        script = Script(claim, journal, reporter)
        turn = self.turns.pop(0) if self.turns else echo
        return script.answer(await turn(script))


async def echo(script: Script) -> str:
    return f"You said: {script.asked}"


class Site:
    """The page's server, its store, and a worker that may be started."""

    def __init__(self, store: Store, config: Config, part: WebPart, runner: ScriptedRunner) -> None:
        self.store = store
        self.config = config
        self.part = part
        self.runner = runner
        self.url = part.url
        self.base = part.url.partition("/?")[0]


def heartbeat(store: Store, name: str) -> Heartbeat:
    return Heartbeat(store, SystemClock(), name, name, interval_s=5, lease_s=15)


def web_config(state_dir: Path, **web: Any) -> Config:
    settings = {"port": 0, "token": SecretStr(TOKEN)} | web
    return Config(state_dir=state_dir, model="offline", web=WebConfig(**settings))


def web_part(config: Config, store: Store) -> WebPart:
    return WebPart(
        config=config, store=store, clock=SystemClock(), heartbeat=heartbeat(store, "web")
    )


@asynccontextmanager
async def running_store(state_dir: Path) -> AsyncIterator[Store]:
    path = state_dir / "clawbot.db"

    def make() -> None:
        sqlite = engine.open_sqlite_engine(path)
        upgrade(sqlite)
        sqlite.dispose()

    await asyncio.to_thread(make)
    store = await engine.open_sqlite_store(path, state_dir / "bells", "tests")
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def running_part(part: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(part.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(WAIT_S):
            await task


@asynccontextmanager
async def running_worker(store: Store, runner: ScriptedRunner) -> AsyncIterator[None]:
    limits = WorkerLimits(turns=50, turn_timeout_s=60, grace_s=0.1, context_rows=10)
    worker = Worker(store, SystemClock(), heartbeat(store, "worker"), runner, limits)
    async with running_part(worker):
        yield


@asynccontextmanager
async def running_site(
    state_dir: Path, *, with_worker: bool = True, **web: Any
) -> AsyncIterator[Site]:
    config = web_config(state_dir, **web)
    async with running_store(state_dir) as store:
        part = web_part(config, store)
        await part.open()
        runner = ScriptedRunner()
        site = Site(store, config, part, runner)
        async with running_part(part):
            if with_worker:
                async with running_worker(store, runner):
                    yield site
            else:
                yield site


class Caller:
    """A program that calls the API with the token."""

    def __init__(self, site: Site, http: aiohttp.ClientSession) -> None:
        self._base = site.base
        self._http = http

    async def get(self, path: str, **query: str) -> Any:
        status, body = await self.get_status(path, **query)
        assert status == 200, body
        return body

    async def get_status(self, path: str, **query: str) -> tuple[int, Any]:
        async with self._http.get(self._base + path, params=query) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        data = io.BytesIO(json.dumps(body).encode())
        headers = {"Content-Type": "application/json"}
        async with self._http.post(self._base + path, data=data, headers=headers) as response:
            return response.status, await response.json()

    async def say(self, text: str, *, session: str = "global", client_msg_id: str) -> Any:
        body = {"session": session, "text": text, "client_msg_id": client_msg_id}
        status, answer = await self.post("/api/messages", body)
        assert status == 200, answer
        return answer

    async def transcript(self, session: str = "global", **query: str) -> Any:
        return await self.get("/api/transcript", session=session, **query)

    async def until(self, wanted: Callable[[Any], bool], session: str = "global") -> Any:
        """Read the transcript until it is as wanted."""
        async with asyncio.timeout(WAIT_S):
            while not wanted(page := await self.transcript(session)):  # noqa: ASYNC110 other processes write it
                await asyncio.sleep(0.02)
        return page

    @asynccontextmanager
    async def events(
        self, cursor: dict[str, int] | None = None, session: str | None = None
    ) -> AsyncIterator["Events"]:
        body = {"cursor": cursor, "session": session}
        async with self._http.post(self._base + "/api/events", json=body) as response:
            assert response.status == 200, await response.text()
            yield Events(response)


class Events:
    """An open event stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, Any]:
        """The next message: its kind and body."""
        kind, data = "", ""
        async with asyncio.timeout(WAIT_S):
            async for raw in self._response.content:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    data = line[6:]
                elif not line and kind:
                    return kind, json.loads(data)
        raise AssertionError("the stream ended")

    async def until(self, wanted: Callable[[str, Any], bool]) -> list[tuple[str, Any]]:
        """Messages up to the one that is wanted."""
        seen = []
        while True:
            seen.append(await self.next())
            if wanted(*seen[-1]):
                return seen

    async def at_end(self) -> bool:
        """Read what is left; whether the server has ended the stream."""
        async with asyncio.timeout(WAIT_S):
            async for _ in self._response.content:
                pass
        return True


@asynccontextmanager
async def calling(site: Site) -> AsyncIterator[Caller]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        yield Caller(site, http)


def kinds(page: Any) -> list[str]:
    return [item["kind"] for item in page["items"]]


def seqs(messages: Sequence[tuple[str, Any]], session: str) -> list[int]:
    """The numbers of a session's events, as a stream told them."""
    return [
        event["seq"]
        for kind, body in messages
        if kind == "change" and body["session"]["key"] == session
        for event in body["events"]
    ]


def is_ended(kind: str, body: Any) -> bool:
    return kind == "change" and any(event["kind"] == "turn_ended" for event in body["events"])
