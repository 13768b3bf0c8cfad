"""`clawbot chat`: talk to the agent in this terminal, in the session of this directory.

The event loop runs in a thread of its own and the keyboard in the main one, so that waiting for
a line blocks nothing and Ctrl-C reaches the answer that is being written.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer
from rich.console import Console

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.config import Config, load_config
from clawbot.logs import configure_logs
from clawbot.session_key import SessionKey
from clawbot.text import head_and_tail

if TYPE_CHECKING:
    from clawbot.history import Entry
    from clawbot.terminal import Conversation, WorkerHost

T = TypeVar("T")

WORDS_OF_PARTING = frozenset({"/exit", "/quit", "exit", "quit"})
SHOWN_CHARS = 600
LOOK_S = 0.2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(chat)


def chat(
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Send this, print the answer, and end.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="The key of another session, as `sessions list` shows it.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="A sub-session of this directory.")] = None,
    continue_: Annotated[
        bool, typer.Option("--continue", help="The session of this directory that was used last.")
    ] = False,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Talk to the agent here. Ctrl-C stops an answer; Ctrl-D, /exit or another Ctrl-C ends."""
    loaded = load_config(config)
    quiet = loaded.log.model_copy(update={"level": "error"})
    configure_logs(quiet, loaded.secrets())
    with _open(loaded, resume, task, newest=continue_) as talk:
        if message is not None:
            raise typer.Exit(0 if talk.say(message) else 1)
        talk.run()


class TerminalScreen:
    """Writes an answer as it grows; progress stands on a line of its own until text follows."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._progress = ""

    def text(self, piece: str) -> None:
        """See `terminal.Screen`."""
        self.progress("")
        if piece:
            self._console.file.write(piece)
            self._console.file.flush()

    def progress(self, line: str) -> None:
        """See `terminal.Screen`; only where lines can be taken back."""
        if line == self._progress or not self._console.is_terminal:
            return
        self._console.file.write("\r\x1b[K")
        self._progress = line
        if line:
            self._console.print(f"… {line}"[: self._console.width - 1], style="dim", end="")

    def notice(self, text: str) -> None:
        """See `terminal.Screen`."""
        self.progress("")
        self._console.print(text, style="italic", markup=False)

    def entry(self, entry: Entry) -> None:
        """An older message."""
        if entry.kind.value not in {"user", "assistant"} or not entry.text:
            return
        mark = "> " if entry.kind.value == "user" else ""
        self._console.print(
            f"{mark}{head_and_tail(entry.text, SHOWN_CHARS)}", style="dim", markup=False
        )

    def end_answer(self) -> None:
        """Leave room for the next prompt."""
        self.text("\n")


class Talk:
    """The keyboard's side."""

    def __init__(self, loop: LoopThread, conversation: Conversation, host: WorkerHost) -> None:
        self._loop = loop
        self._conversation = conversation
        self._host = host
        self._screen = TerminalScreen()

    def run(self) -> None:
        """Read lines and show answers until somebody parts."""
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            self._greet()
        while True:
            try:
                line = input("> " if is_terminal else "").strip()
            except (EOFError, KeyboardInterrupt):
                return
            if line.casefold() in WORDS_OF_PARTING:
                return
            if line:
                self.say(line)

    def say(self, line: str) -> bool:
        """Send a line and show the answer; Ctrl-C stops it. False if it failed."""
        answering = self._loop.submit(self._conversation.say(line, self._screen, self._host))
        is_stopping = False
        while True:
            try:
                with suppress(FutureTimeout):  # short waits, so that Ctrl-C is noticed
                    done = answering.result(LOOK_S)
                    self._screen.end_answer()
                    return done
            except KeyboardInterrupt:
                if is_stopping:
                    raise
                is_stopping = True
                self._loop.submit(self._conversation.send("/stop"))

    def _greet(self) -> None:
        Console(highlight=False).print(
            f"[bold]{self._conversation.key}[/bold] · {self._conversation.model} · "
            "/help, /new, Ctrl-D ends"
        )
        for entry in self._loop.submit(self._conversation.recent(6)).result():
            self._screen.entry(entry)


class LoopThread:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat-loop")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, job: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there."""
        return asyncio.run_coroutine_threadsafe(job, self._loop)


@contextmanager
def _open(config: Config, resume: str | None, task: str | None, *, newest: bool) -> Iterator[Talk]:
    """Open the store, and what runs turns where no daemon does."""
    from clawbot.clock import SystemClock
    from clawbot.parts import open_store, worker_part
    from clawbot.store import session_admin
    from clawbot.terminal import CHANNEL, Conversation, WorkerHost

    key = SessionKey.parse(resume) if resume else SessionKey.of_directory(str(Path.cwd()))
    if task:
        key = key.with_task(task)
    with LoopThread() as loop:
        store = loop.submit(open_store(config)).result()
        host = WorkerHost(lambda process_id: worker_part(config, store, process_id))
        try:
            if resume:
                loop.submit(store.read(lambda tx: session_admin.get(tx, key))).result()
            elif newest:
                directory = str(Path.cwd())
                job = store.read(lambda tx: session_admin.newest_of_directory(tx, directory))
                key = loop.submit(job).result() or key
            own = loop.submit(store.read(lambda tx: session_admin.settings_of(tx, key))).result()
            models = config.models_of(key.channel or CHANNEL)
            conversation = Conversation(
                store=store,
                clock=SystemClock(),
                key=key,
                models=models,
                model=own.model or models.usual,
                zone=config.time_zone,
                lease_s=config.limits.lease_s,
            )
            yield Talk(loop, conversation, host)
        finally:
            loop.submit(host.close()).result()
            loop.submit(store.close()).result()
