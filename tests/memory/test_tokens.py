"""Counting tokens: exact where it can be, never a download, never a panic."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import socket
from importlib import resources

import pytest
import structlog

from clawbot.agent import tokens
from clawbot.agent.model_sizes import UNKNOWN_WINDOW_TOKENS, size_of
from clawbot.agent.tokens import TokenCounter, byte_bound, estimate, load_encode, open_counter

# What `tiktoken_ext/openai_public.py` demands of the file.
VOCABULARY_HASH = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
HARD_TEXTS = {
    "spaces": " " * 1_000_000,
    "spaces and a letter": " " * 2_000_000 + "a",
    "tabs": "\t" * 1_000_000,
    "one letter": "a" * 1_000_000,
    "one mark": "=" * 1_000_000,
    "Chinese": "测" * 300_000,
    "emoji": "\N{GRINNING FACE}" * 100_000,
    "surrogates": "\ud800 \udfff" * 1000,
    "special": "<|endoftext|>" * 1000,
    "NUL": "\x00" * 10_000,
}


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter(load_encode())


def test_T_the_shipped_vocabulary_is_the_one_that_tiktoken_demands() -> None:
    packed = resources.files("clawbot.agent.vocabulary") / "o200k_base.tiktoken.gz"
    assert hashlib.sha256(gzip.decompress(packed.read_bytes())).hexdigest() == VOCABULARY_HASH


def test_T_known_texts_have_the_tokens_of_o200k(counter: TokenCounter) -> None:
    encode = load_encode()
    assert encode is not None
    assert encode("hello world") == [24912, 2375]
    assert encode("<|endoftext|>") == [27, 91, 419, 1440, 919, 91, 29]
    assert counter.count("hello world") == 2
    assert counter.count("") == 0


def test_T_counting_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    encode = load_encode.__wrapped__()
    assert encode is not None
    assert len(encode("offline")) > 0


@pytest.mark.timeout(20)  # it took older libraries a minute
@pytest.mark.parametrize("name", HARD_TEXTS)
def test_B16_no_text_makes_counting_fail(counter: TokenCounter, name: str) -> None:
    text = HARD_TEXTS[name]
    assert 0 < counter.count(text) <= byte_bound(text)


async def test_B16_counting_leaves_the_loop_free() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async with await open_counter() as counter:
        ticking = asyncio.create_task(tick())
        found = await counter.in_thread(lambda: counter.count(HARD_TEXTS["Chinese"]))
        ticking.cancel()
    assert found > 0
    assert ticks > 100


def test_B16_a_text_of_megabytes_is_counted_only_as_far_as_it_matters() -> None:
    seen = 0

    def encode(text: str) -> list[int]:
        nonlocal seen
        seen += len(text)
        return [0] * len(text)

    assert TokenCounter(encode).count("x" * 5_000_000, stop_above=1000) > 1000
    assert seen <= tokens.SLICE_CHARS


class PanicException(BaseException):
    """As pyo3 names its own."""


def test_T_a_panic_of_the_native_code_becomes_an_estimate() -> None:
    def panics(_text: str) -> list[int]:
        raise PanicException

    with structlog.testing.capture_logs() as logs:
        assert TokenCounter(panics).count("some words here") == estimate("some words here")
    assert [entry["event"] for entry in logs] == ["tokens_estimated"]


def test_T_what_ends_the_process_passes_through() -> None:
    def interrupted(_text: str) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenCounter(interrupted).count("text")


def test_T_without_a_vocabulary_characters_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> bytes:
        raise OSError("gone")

    monkeypatch.setattr(tokens, "_data", broken)
    with structlog.testing.capture_logs() as logs:
        assert load_encode.__wrapped__() is None
    assert [entry["event"] for entry in logs] == ["tokens_without_vocabulary"]
    assert TokenCounter(None).count("测试" * 10) == estimate("测试" * 10)


def test_T_a_slice_adds_next_to_nothing(counter: TokenCounter) -> None:
    encode = load_encode()
    assert encode is not None
    text = "2026-01-01 12:00:00 INFO worker started, 12 turns 一行日志\n" * 4000
    assert 0 <= counter.count(text) - len(encode(text)) < 20


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 50, 0.8, 1.3),
        ('{"id": 12345, "name": "value"},\n' * 50, 0.8, 1.3),
        ("这是一个中文测试，看看有多少个标记。" * 50, 1.0, 2.0),
        ("これはテストです。" * 50, 1.0, 2.0),
        ("def main() -> int:\n    return 0\n" * 50, 0.8, 1.6),
    ],
)
def test_the_estimate_is_near_the_count(
    counter: TokenCounter, text: str, least: float, most: float
) -> None:
    assert least <= estimate(text) / counter.count(text) <= most


def test_B19_a_window_is_configured_else_known_by_name_else_careful() -> None:
    assert size_of("my-server:anything", 8192).window_tokens == 8192
    assert size_of("anthropic:claude-sonnet-4-5", None).window_tokens == 200_000
    assert size_of("openai:gpt-5.1", None).window_tokens == 272_000
    assert size_of("my-server:Qwen/Qwen3-32B", None).window_tokens == 131_072
    assert size_of("my-server:nobody-knows", None).window_tokens == UNKNOWN_WINDOW_TOKENS


def test_T_each_family_has_its_factor() -> None:
    assert size_of("anthropic:claude-opus-4-7", None).factor == 1.6
    assert size_of("my-server:nobody-knows", None).factor == 1.1
    assert size_of("openai-chat:gpt-4.1", None).factor < 1.1
