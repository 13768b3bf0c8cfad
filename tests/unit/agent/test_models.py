"""Real SDKs against the simulated providers: what a call comes to, and what its failure means."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from clawbot.agent.models import HttpClients, ModelPool, is_loopback, open_model
from clawbot.config_sections import ProviderConfig
from clawbot.errors import ConfigError, ModelError
from clawbot.history import Entry, EntryKind, ModelReply, ModelRequest, ToolSpec
from tests.simulators.model import (
    Answer,
    BreakOff,
    ModelSimulator,
    Refusal,
    Reply,
    ToolCall,
    Usage,
)
from tests.unit.agent.bodies import MODEL_NAMES

NAMES = [f"{provider}:{model}" for provider, model in MODEL_NAMES.items()]
EACH = pytest.mark.parametrize("name", NAMES)
READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
HELLO = ModelRequest(
    system="Be brief.",
    entries=(Entry(kind=EntryKind.USER, text="hello"),),
    tools=(READ_FILE,),
)


@pytest.fixture
async def simulator() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator() as simulated:
        yield simulated


@pytest.fixture
async def pool(simulator: ModelSimulator) -> AsyncIterator[ModelPool]:
    providers = {
        provider: ProviderConfig(api_key=SecretStr("key"), base_url=simulator.base_url(provider))
        for provider in MODEL_NAMES
    }
    async with ModelPool(providers) as opened:
        yield opened


class Listener:
    """Keeps the pieces of visible text."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.heard = asyncio.Event()

    def __call__(self, piece: str) -> None:
        self.pieces.append(piece)
        self.heard.set()

    @property
    def text(self) -> str:
        return "".join(self.pieces)


async def failure(pool: ModelPool, name: str, request: ModelRequest = HELLO) -> ModelError:
    model = await pool.get(name)
    with pytest.raises(ModelError) as caught:
        await model.reply(request, lambda _piece: None)
    return caught.value


async def reply_to(pool: ModelPool, name: str, request: ModelRequest = HELLO) -> ModelReply:
    model = await pool.get(name)
    return await model.reply(request, lambda _piece: None)


# Replies


@EACH
async def test_text_arrives_in_pieces_and_whole(
    simulator: ModelSimulator, pool: ModelPool, name: str
) -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=40)
    simulator.expect(Reply(text=("Hel", "lo ", "世界"), usage=usage))
    listener = Listener()
    model = await pool.get(name)
    reply = await model.reply(HELLO, listener)
    simulator.assert_done()
    assert listener.text == reply.text == "Hello 世界"
    assert [piece for piece in listener.pieces if piece] == ["Hel", "lo ", "世界"]
    assert (reply.finish_reason, reply.tool_calls) == ("stop", ())
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 7)
    assert reply.usage.cached_tokens == 40


@EACH
async def test_tool_calls_come_with_their_ids_and_arguments(
    simulator: ModelSimulator, pool: ModelPool, name: str
) -> None:
    calls = (
        ToolCall(name="read_file", arguments={"path": "a"}, id="one"),
        ToolCall(name="read_file", arguments=('{"pa', 'th":'), id="two"),
    )
    simulator.expect(Reply(text="let me see", tool_calls=calls))
    reply = await reply_to(pool, name)
    simulator.assert_done()
    assert reply.finish_reason == "tool_calls"
    assert [call.tool for call in reply.tool_calls] == ["read_file", "read_file"]
    assert reply.tool_calls[0].arguments == '{"path": "a"}'
    assert reply.tool_calls[1].arguments == '{"path":'
    assert [call.call_id for call in reply.tool_calls] == ["one", "two"]


@EACH
async def test_a_reply_cut_by_its_length_keeps_its_text(
    simulator: ModelSimulator, pool: ModelPool, name: str
) -> None:
    simulator.expect(Reply(text="half a sent", finish="length"))
    reply = await reply_to(pool, name)
    assert (reply.text, reply.finish_reason) == ("half a sent", "length")


async def test_signed_thinking_goes_back_while_nothing_before_it_changes(
    simulator: ModelSimulator, pool: ModelPool
) -> None:
    """The simulator refuses a signature after any other prefix, as the provider does."""
    name = f"anthropic:{MODEL_NAMES['anthropic']}"
    call = ToolCall(name="read_file", arguments={"path": "a"})
    simulator.expect(Reply(thinking="I must look", tool_calls=(call,)))
    reply = await reply_to(pool, name)
    assert reply.thinking == "I must look"
    made = reply.tool_calls[0]
    step = {"turn_id": "t", "step": 0}
    rest = (
        Entry(kind=EntryKind.THINKING, text=reply.thinking, signature=reply.signature, **step),
        Entry(
            kind=EntryKind.TOOL_CALL,
            call_id=made.call_id,
            tool=made.tool,
            arguments=made.arguments,
            **step,
        ),
        Entry(kind=EntryKind.TOOL_RESULT, call_id=made.call_id, tool=made.tool, text="x", **step),
    )
    simulator.expect(Reply(text="done"))
    await reply_to(pool, name, replace(HELLO, entries=(*HELLO.entries, *rest)))
    assert simulator.requests[-1].messages[1].thinking == "I must look"

    simulator.expect(Reply(text="done"))
    changed = (Entry(kind=EntryKind.USER, text="hello, said otherwise"),)
    await reply_to(pool, name, replace(HELLO, entries=(*changed, *rest)))
    assert simulator.requests[-1].messages[1].thinking == ""
    simulator.assert_done()


@pytest.mark.parametrize("provider", ["zai", "deepseek"])
async def test_thinking_of_the_other_providers_goes_back_in_its_field(
    simulator: ModelSimulator, pool: ModelPool, provider: str
) -> None:
    name = f"{provider}:{MODEL_NAMES[provider]}"
    simulator.expect(Reply(thinking=("I ", "think"), text="yes"))
    reply = await reply_to(pool, name)
    assert (reply.thinking, reply.text) == ("I think", "yes")
    entries = (
        *HELLO.entries,
        Entry(kind=EntryKind.THINKING, text=reply.thinking, turn_id="t", step=0),
        Entry(kind=EntryKind.ASSISTANT, text=reply.text, turn_id="t", step=0),
        Entry(kind=EntryKind.USER, text="sure?"),
    )
    simulator.expect(Reply(text="sure"))
    await reply_to(pool, name, replace(HELLO, entries=entries))
    assert simulator.requests[-1].messages[1].thinking == "I think"
    simulator.assert_done()


@EACH
async def test_a_model_that_has_begun_without_a_text_gives_a_sign_of_it(
    simulator: ModelSimulator, pool: ModelPool, name: str
) -> None:
    simulator.expect(Reply(tool_calls=(ToolCall(name="read_file", arguments={"path": "a"}),)))
    listener = Listener()
    await (await pool.get(name)).reply(HELLO, listener)
    assert listener.heard.is_set()
    assert set(listener.pieces) == {""}


# Failures

OVERFLOW, AUTH, QUOTA, LIMITED = "overflow", "auth", "quota", "rate_limited"


@EACH
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Refusal(status=400, kind="overflow"), OVERFLOW),
        (Refusal(status=413, body={"error": {"message": "too large"}}), OVERFLOW),
        (Refusal(status=401), AUTH),
        (Refusal(status=403, body="<html>blocked</html>"), AUTH),
        (Refusal(status=402), QUOTA),
        (Refusal(status=429, kind="quota"), QUOTA),
        (Refusal(status=429, kind="rate_limit"), LIMITED),
        (Refusal(status=408, kind="server"), "retryable"),
        (Refusal(status=409, kind="server"), "retryable"),
        (Refusal(status=500), "retryable"),
        (Refusal(status=502, body="<html>Bad Gateway</html>"), "retryable"),
        (Refusal(status=503, kind="overloaded"), "retryable"),
        (Refusal(status=529, kind="overloaded"), "retryable"),
        (Refusal(status=400), "invalid"),
        (Refusal(status=404), "invalid"),
        (Refusal(status=422, kind="invalid_request"), "invalid"),
        (Reply(text="par", finish="missing"), "retryable"),
        (Reply(text="no", finish="content_filter"), "refused"),
        (Reply(), "invalid"),
        (Reply(text=" \n"), "invalid"),
        (Reply(finish="length"), "invalid"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="reset", after=None)), "retryable"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="reset", after=0)), "retryable"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="reset", after=1)), "retryable"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="end", after=0)), "retryable"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="end", after=1)), "retryable"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="error", after=0)), "retryable"),
        (Reply(text=("a", "b"), break_off=BreakOff(how="error", after=1)), "retryable"),
        (
            Reply(text="a", break_off=BreakOff(how="error", after=1, error_kind="rate_limit")),
            LIMITED,
        ),
        (
            Reply(text="a", break_off=BreakOff(how="error", after=0, error_kind="overflow")),
            OVERFLOW,
        ),
    ],
    ids=str,
)
async def test_a_failure_is_known_by_its_kind(
    simulator: ModelSimulator, pool: ModelPool, name: str, answer: Answer, kind: str
) -> None:
    simulator.expect(answer)
    error = await failure(pool, name)
    assert error.kind == kind
    assert len(simulator.requests) == 1, "nothing is retried here"
    assert name in str(error)


@EACH
async def test_the_wish_of_the_provider_to_wait_is_passed_on(
    simulator: ModelSimulator, pool: ModelPool, name: str
) -> None:
    simulator.expect(Refusal(status=429, retry_after=17))
    assert (await failure(pool, name)).retry_after_s == 17


@EACH
async def test_a_provider_that_cannot_be_reached_may_be_tried_again(name: str) -> None:
    provider = name.partition(":")[0]
    async with ModelSimulator() as gone:
        url = gone.base_url(provider)
    async with ModelPool({provider: ProviderConfig(base_url=url)}) as pool:
        assert (await failure(pool, name)).kind == "retryable"


@EACH
@pytest.mark.parametrize("body", [b"<html>busy</html>", b"", b"data: {broken\n\n", b"\xff\xfe"])
@pytest.mark.parametrize("content_type", ["text/event-stream", "text/html", "application/json"])
async def test_an_answer_that_no_provider_would_give_may_be_tried_again(
    name: str, body: bytes, content_type: str
) -> None:
    """Gateways answer 200 with whatever they have."""

    async def answer_all(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer_all)
    provider = name.partition(":")[0]
    async with TestServer(app) as server:
        own = ProviderConfig(base_url=str(server.make_url("/")))
        async with ModelPool({provider: own}) as pool:
            assert (await failure(pool, name)).kind == "retryable"


async def test_an_error_does_not_repeat_what_was_said(
    simulator: ModelSimulator, pool: ModelPool
) -> None:
    simulator.expect(Refusal(status=400, body={"error": {"message": "bad: hello"}}))
    error = await failure(pool, NAMES[0])
    assert "hello" not in str(error)


# Ends and limits


@EACH
@pytest.mark.parametrize("after", [None, 0, 1])
async def test_cancelling_a_call_closes_its_connection(
    simulator: ModelSimulator, pool: ModelPool, name: str, after: int | None
) -> None:
    simulator.expect(Reply(text=("a", "b")))
    gate = simulator.hold(after=after)
    listener = Listener()
    model = await pool.get(name)
    call = asyncio.create_task(model.reply(HELLO, listener))
    await gate.reached
    if after:
        await listener.heard.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await simulator.wait_until(
        lambda: simulator.requests[0].outcome == "disconnected", "closed connection"
    )


async def test_the_pool_makes_a_model_once_and_shares_connections(
    simulator: ModelSimulator, pool: ModelPool
) -> None:
    models = await asyncio.gather(*(pool.get(NAMES[0]) for _ in range(20)))
    assert len(set(map(id, models))) == 1
    simulator.expect(Reply(text="one"))
    simulator.expect(Reply(text="two"))
    await reply_to(pool, NAMES[0])
    await reply_to(pool, NAMES[2])
    simulator.assert_done()
    await pool.aclose()
    await pool.aclose()


async def test_hundreds_of_hanging_calls_hold_up_no_other(
    simulator: ModelSimulator, pool: ModelPool
) -> None:
    for number in range(300):
        simulator.expect(Reply(text="late"), marker=f"#{number}#")
        simulator.hold(marker=f"#{number}#")
    model = await pool.get(NAMES[0])
    hanging = [
        asyncio.create_task(
            model.reply(
                replace(HELLO, entries=(Entry(kind=EntryKind.USER, text=f"#{number}#"),)),
                lambda _piece: None,
            )
        )
        for number in range(300)
    ]
    await simulator.wait_calls(300)
    simulator.expect(Reply(text="now"))
    assert (await reply_to(pool, NAMES[0])).text == "now"
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)


# What the config names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai-chat:gpt-4.1", "config providers.openai-chat.api_key: missing"),
        ("anthropic:claude", "${ANTHROPIC_API_KEY}"),
        ("nobody:x", "no such provider"),
        ("gpt-4.1", "no such provider"),
        ("zai:", "no such provider"),
    ],
)
def test_a_model_that_cannot_be_opened_says_what_to_do(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_model(name, {}, HttpClients())
    assert words in str(caught.value)


async def test_any_provider_with_an_address_can_be_named(simulator: ModelSimulator) -> None:
    own = ProviderConfig(base_url=simulator.base_url("openai-chat"))
    simulator.expect(Reply(text="hello"))
    async with ModelPool({"my-vllm": own}) as pool:
        assert (await reply_to(pool, "my-vllm:qwen/qwen3:8b")).text == "hello"
    sent = simulator.requests[0].body
    assert (sent["model"], sent["max_tokens"]) == ("qwen/qwen3:8b", HELLO.max_output_tokens)
    simulator.assert_done()


async def test_the_offline_model_is_there_only_when_named() -> None:
    async with ModelPool({}) as pool:
        assert (await pool.get("offline")).name == "offline"
        with pytest.raises(ConfigError):
            await pool.get("offline:x")


def test_the_proxy_is_for_other_hosts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(is_loopback(f"http://{host}/v1") for host in ("127.0.0.1:1", "[::1]:1", "localhost"))
    assert not is_loopback("https://api.openai.com/v1")
    assert not is_loopback("http://127.0.0.1.example.com")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    clients = HttpClients()
    near, far = clients.for_url("http://127.0.0.1"), clients.for_url("https://example.com")
    assert near is not far
    assert (near.trust_env, far.trust_env) == (False, True)
