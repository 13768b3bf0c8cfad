"""How many tokens a text is, by the vocabulary that is shipped in this package.

The count is exact for OpenAI's newer models and an estimate for all others; what it is off by is a
factor of the model (`agent.model_sizes`), and nothing here knows of it. Where tiktoken cannot be
used, or breaks down over a text, characters are counted instead.

Facts this is built on, for tiktoken 0.14: its own loader downloads without a time-out, so the
encoding is built here from the shipped file; it panics over a million spaces, with an exception
that `except Exception` misses, so texts are encoded in slices; `encode` refuses texts that hold
`<|endoftext|>`, so the ordinary form is used; encoding releases the interpreter, so it belongs in a
thread; building the encoding does not (0.3 s), so it happens before a worker takes turns.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import gzip
import string
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from types import TracebackType
from typing import Self, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")
Encode = Callable[[str], Sequence[int]]

SLICE_CHARS = 32_768
THREADS = 2
_ASCII = bytes(range(128))
_NO_LETTERS = _ASCII.translate(None, string.ascii_letters.encode())
_NO_DIGITS = _ASCII.translate(None, string.digits.encode())
_NO_SPACES = _ASCII.translate(None, string.whitespace.encode())
_FILE = "o200k_base.tiktoken.gz"
_PATTERN = "o200k_base.pattern.txt"


class TokenCounter:
    """Counts tokens. One serves all sessions of a process; it keeps nothing of any text.

    encode: turns a text into tokens; None = count characters.
    """

    def __init__(self, encode: Encode | None) -> None:
        self._encode = encode
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tokens")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run what counts in a thread of the counter's own: nobody's slow disk delays it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def count(self, text: str, *, stop_above: int | None = None) -> int:
        """The tokens of a text. Blocks: about a second for 10 MB.

        Whoever only wants to know whether there are more than `stop_above` is told some number
        above it, as soon as that is clear.
        """
        if self._encode is None:
            return estimate(text)
        total = 0
        for start in range(0, len(text), SLICE_CHARS):
            total += _slice_tokens(self._encode, text[start : start + SLICE_CHARS])
            if stop_above is not None and total > stop_above:
                break
        return total


def _slice_tokens(encode: Encode, text: str) -> int:
    try:
        return len(encode(text))
    except BaseException as error:
        # A panic of the native code derives from BaseException alone, as what must pass does.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        log.warning("tokens_estimated", chars=len(text), error=type(error).__name__)
        return estimate(text)


def estimate(text: str) -> int:
    """The tokens of a text, judged by its kinds of characters alone; fast.

    Within a fifth of the count for English, JSON and code; up to twice of it for Chinese, Japanese
    and emoji; hex and base64 come out too small.
    """
    plain = text.encode("ascii", "ignore")
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2  # an emoji is two
    letters = len(plain.translate(None, _NO_LETTERS))
    digits = len(plain.translate(None, _NO_DIGITS))
    spaces = len(plain.translate(None, _NO_SPACES))
    marks = len(plain) - letters - digits - spaces
    quarters = letters + 2 * digits + 3 * marks + spaces // 4
    return (quarters + 3) // 4 + units - len(plain)


def byte_bound(text: str) -> int:
    """More tokens than this a text cannot have: a token stands for at least one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


async def open_counter() -> TokenCounter:
    """A counter with the shipped vocabulary. The first one of a process takes half a second."""
    return TokenCounter(await asyncio.to_thread(load_encode))


@functools.cache
def load_encode() -> Encode | None:
    """The shipped encoding; None, with a warning, if it cannot be had.

    Kept for the process: it never changes, takes 0.3 s of the interpreter and 80 MB.
    """
    try:
        from tiktoken import Encoding  # noqa: PLC0415  # a broken install must not end the worker

        encoding = Encoding(
            "clawbot_o200k",
            pat_str=_data(_PATTERN).decode().replace("\n", ""),
            mergeable_ranks=_ranks(gzip.decompress(_data(_FILE))),
            special_tokens={},
        )
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        log.warning("tokens_without_vocabulary", error=f"{type(error).__name__}: {error}")
        return None
    return encoding.encode_ordinary


def _data(name: str) -> bytes:
    return (resources.files("clawbot.agent.vocabulary") / name).read_bytes()


def _ranks(raw: bytes) -> dict[bytes, int]:
    """A vocabulary file: on each line a token in base64, and its rank."""
    fields = raw.split()
    return {
        base64.b64decode(token): int(rank)
        for token, rank in zip(fields[::2], fields[1::2], strict=True)
    }
