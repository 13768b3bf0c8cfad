"""send_file: what it reads and refuses, and that nothing goes out without the call's record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.errors import LeaseLost
from clawbot.history import Entry, EntryKind, ToolCall
from clawbot.journal import StoreJournal
from clawbot.observation import Observation
from clawbot.ports import Store
from clawbot.store import blobs
from clawbot.tools.outgoing import TurnFiles, size_text
from clawbot.tools.registry import ToolLimits, ToolRegistry
from clawbot.tools.send_file import SendFile
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.unit.tools.context import context_in

MAX_BYTES = 100
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("files-out"))


@pytest.fixture
async def store(template: Path) -> AsyncIterator[Store]:
    made = SqliteGround(template, patience_s=10)
    yield await made.open("worker")
    await made.close()


async def send(
    work_dir: Path, sender: TurnFiles | None, path: str = "report.csv", name: str = ""
) -> Observation:
    """A call of the tool by the model."""
    registry = ToolRegistry([SendFile(max_bytes=MAX_BYTES)], clock=CLOCK, limits=ToolLimits())
    context = context_in(work_dir)
    context.file_sender = sender
    arguments = f'{{"path": "{path}", "name": "{name}"}}'
    call = ToolCall(call_id="c", tool="send_file", arguments=arguments, seq=1)
    return await registry.bind(context).call(call)


RESULT = Entry(kind=EntryKind.TOOL_RESULT, call_id="c", tool="send_file", text="on its way")


async def test_a_file_goes_out_with_the_record_of_its_call(store: Store, tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_bytes(b"a,b\n1,2\n")
    turn = await scenes.begin(store, "send me the report")
    seen = await send(tmp_path, TurnFiles(store, CLOCK, turn), name="Q3.csv")
    assert not seen.is_error
    assert "Q3.csv (8 bytes)" in seen.text
    assert await scenes.column(store, "outbox.id") == []
    await StoreJournal(store, CLOCK, turn).record([RESULT], effects=seen.effects)
    (row,) = await scenes.take_replies(store, now_ms=CLOCK.now_ms())
    assert row.file is not None
    assert (row.file.name, row.file.mime, row.file.size_bytes) == ("Q3.csv", "text/csv", 8)
    assert await blobs.fetch(store, row.file.blob) == b"a,b\n1,2\n"
    assert row.text == "(The file Q3.csv, 8 B, could not be sent to this chat.)"
    assert row.route == turn.route


async def test_a_worker_that_lost_its_turn_sends_no_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_bytes(b"x")
    turn = await scenes.begin(store)
    seen = await send(tmp_path, TurnFiles(store, CLOCK, turn))
    await scenes.give_back(store, turn)
    await scenes.claim(store, "another worker")
    with pytest.raises(LeaseLost):
        await StoreJournal(store, CLOCK, turn).record([RESULT], effects=seen.effects)
    assert await scenes.column(store, "outbox.id") == []


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("report.csv", b"", "empty"),
        ("report.csv", b"x" * (MAX_BYTES + 1), "101 bytes; files of up to 100 bytes"),
        ("other.csv", None, "other.csv"),
        ("../report.csv", None, "outside"),
    ],
)
async def test_what_cannot_be_sent_is_said_and_goes_nowhere(
    store: Store, tmp_path: Path, path: str, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / path).write_bytes(content)
    turn = await scenes.begin(store)
    seen = await send(tmp_path, TurnFiles(store, CLOCK, turn), path)
    assert seen.is_error
    assert told in seen.text
    assert seen.effects == ()


@pytest.mark.parametrize(
    ("most", "told"), [(0, "takes no files"), (5, "6 B; this chat takes up to 5 B")]
)
async def test_what_the_chat_does_not_take_is_told_to_the_model(
    store: Store, tmp_path: Path, most: int, told: str
) -> None:
    (tmp_path / "report.csv").write_bytes(b"123456")
    rules = scenes.rules_of(file_bytes=most)
    await scenes.accept(store, scenes.said("m1", "send it"), rules)
    (turn,) = await scenes.claim(store)
    seen = await send(tmp_path, TurnFiles(store, CLOCK, turn))
    assert (seen.is_error, seen.effects) == (True, ())
    assert told in seen.text


async def test_where_there_is_no_chat_the_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_bytes(b"x")
    seen = await send(tmp_path, None)
    assert seen.is_error
    assert "no chat" in seen.text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (20_971_520, "21.0 MB")]
)
def test_a_size_is_told_in_units_of_people(size: int, text: str) -> None:
    assert size_text(size) == text
