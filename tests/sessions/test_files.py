"""Scenarios J1, J2, J8, A7 and E5 of files: what is exported, imported and kept as transcripts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert

from clawbot.agent.saved import saved_dir
from clawbot.clock import SystemClock
from clawbot.errors import RequestRefused, SessionTaken, ToolError
from clawbot.history import Entry, EntryKind, Usage
from clawbot.ports import Store, Transaction
from clawbot.seed import given_seed
from clawbot.session_file import (
    MOST_LINE_BYTES,
    Damage,
    Header,
    Record,
    entry_line,
    header_line,
    read_session,
)
from clawbot.session_key import SessionKey
from clawbot.session_transfer import Imported, export_session, import_session
from clawbot.state_dir import prepare_state_dir
from clawbot.store import copies, deletion, history, seeds, session_admin
from clawbot.store.schema import messages
from clawbot.tools.files import open_directory, open_file
from clawbot.transcript_files import TAIL_BYTES, last_seq
from clawbot.transcripts import TranscriptKeeper
from tests.contracts.store.scenes import NOW_MS
from tests.sessions.scenes import ask, claim, talk

KEY = SessionKey.of_chat("desk", "C1")
TASK = KEY.with_task("7")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('{}":\n\r\0\u2028中😀'))
NUMBERS = st.integers(0, 2**40)
ENTRIES = st.builds(
    Entry,
    kind=st.sampled_from(EntryKind),
    text=TEXTS,
    turn_id=st.none() | TEXTS,
    step=st.integers(-1, 50),
    call_id=TEXTS,
    tool=TEXTS,
    arguments=TEXTS,
    is_error=st.booleans(),
    signature=TEXTS,
    sender=TEXTS,
    usage=st.none()
    | st.builds(Usage, input_tokens=NUMBERS, output_tokens=NUMBERS, cached_tokens=NUMBERS),
    seq=st.integers(1, 2**40),
    created_ms=NUMBERS,
)
RECORDS = st.lists(
    st.builds(Record, epoch=st.integers(0, 9), entry=ENTRIES),
    max_size=6,
    unique_by=lambda record: record.entry.seq,
)


def line_of(number: int, text: str = "hello") -> bytes:
    return entry_line(0, Entry(kind=EntryKind.USER, text=text, seq=number, created_ms=NOW_MS))


def read(raw: bytes) -> tuple[list[int], Damage]:
    """The numbers of the entries that were read, and the damage."""
    damage = Damage()
    found = list(read_session(BytesIO(raw), damage))
    return [one.entry.seq for one in found if isinstance(one, Record)], damage


async def exported(store: Store, key: SessionKey) -> bytes:
    return b"".join([line async for line in export_session(store, key)])


async def imported(store: Store, raw: bytes, key: SessionKey | None = None) -> Imported:
    return await import_session(store, SystemClock(), BytesIO(raw), key)


@given(RECORDS)
def test_what_is_written_is_read_back_equal(records: list[Record]) -> None:
    raw = b"".join(entry_line(record.epoch, record.entry) for record in records)
    damage = Damage()
    assert list(read_session(BytesIO(raw), damage)) == records
    assert raw.count(b"\n") == len(records)
    assert damage.skipped == 0


@given(RECORDS, st.data())
def test_j2_any_cut_costs_no_more_than_the_records_it_hits(
    records: list[Record], data: st.DataObject
) -> None:
    lines = [entry_line(record.epoch, record.entry) for record in records]
    raw = b"".join(lines)
    first = data.draw(st.integers(0, len(raw)))
    last = data.draw(st.integers(first, len(raw)))
    damage = Damage()
    found = list(read_session(BytesIO(raw[:first] + raw[last:]), damage))
    ends = [len(b"".join(lines[: number + 1])) for number in range(len(lines))]
    whole = [
        record
        for record, line, end in zip(records, lines, ends, strict=True)
        # Its line end alone may be lost.
        if first == last or end - 1 <= first or end - len(line) >= last
    ]
    assert [one for one in found if one in whole] == whole
    assert len(found) <= len(whole) + 1  # a cut may leave a shorter record that is whole


@pytest.mark.parametrize(
    ("raw", "kept", "skipped"),
    [
        (line_of(1) + line_of(2)[:30], [1], 1),
        (line_of(1)[:-1] + line_of(2)[:-1] + line_of(3), [1, 2, 3], 0),
        (line_of(1) + b"\0" * 4096 + line_of(2), [1, 2], 1),
        (line_of(1) + b"{bad json}\n" + line_of(2), [1, 2], 1),
        (line_of(1) + line_of(2)[:25] + line_of(3) + line_of(4), [1, 3, 4], 1),
        (line_of(1) + b"\xff\xfe garbage\n" + line_of(2), [1, 2], 1),
        (line_of(1).replace(b"hello", b"\xc3") + line_of(2), [2], 1),
        (b"[1, 2]\n" + line_of(1), [1], 1),
        (line_of(1).replace(b"user", b"alien") + line_of(2), [2], 1),
        (b"[" * 100_000 + b"\n" + line_of(1), [1], 1),
        (line_of(1).replace(b'"at_ms"', b'"more": {"x": 1}, "at_ms"'), [1], 0),
        (b"\n\n" + line_of(1), [1], 0),
        (b"", [], 0),
    ],
    ids=[
        *("torn last line", "glued records", "NUL block", "bad JSON in the middle"),
        *("spliced lines", "not UTF-8", "half a character", "other JSON", "unknown kind"),
        *("deep nesting", "a newer field", "empty lines", "empty file"),
    ],
)
def test_j2_damage_is_skipped_and_counted_and_the_rest_kept(
    raw: bytes, kept: list[int], skipped: int
) -> None:
    found, damage = read(raw)
    assert (found, damage.skipped) == (kept, skipped)


def test_j2_a_line_of_50_mb_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(line_of(1))
        for _ in range(50):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + line_of(2))
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            damage = Damage()
            found = list(read_session(file, damage))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.entry.seq for one in found if isinstance(one, Record)] == [1, 2]
    assert damage.reasons == {"line too long": 1}
    assert peak < 3 * MOST_LINE_BYTES


async def test_e5_an_exported_session_comes_back_the_same_line_for_line(store: Store) -> None:
    await store.write(lambda tx: seeds.give(tx, TASK, given_seed("About 7: äöü 中"), NOW_MS))
    await talk(store, TASK, "one", "two\n{}\u2028")
    await store.write(lambda tx: session_admin.reset(tx, TASK, NOW_MS))
    await talk(store, TASK, "three")
    await store.write(lambda tx: session_admin.rename(tx, TASK, "A title", NOW_MS))
    await store.write(lambda tx: session_admin.change_settings(tx, TASK, {"max_steps": 4}, NOW_MS))
    before = await exported(store, TASK)
    copy = SessionKey.of_chat("web", "copy").with_task("7")
    done = await imported(store, before, copy)
    assert (done.entries, done.damage.skipped) == (16, 0)
    assert (await exported(store, copy)).replace(b"web:copy", b"desk:C1") == before
    with pytest.raises(SessionTaken):
        await imported(store, before)


async def test_e5_a_deleted_session_can_be_imported_again_and_goes_on(store: Store) -> None:
    await talk(store, KEY, "one")
    before = await exported(store, KEY)
    old = await store.read(lambda tx: session_admin.get(tx, KEY))
    await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    await imported(store, before)
    await talk(store, KEY, "two")
    info = await store.read(lambda tx: session_admin.get(tx, KEY))
    entries = await store.read(lambda tx: history.load(tx, KEY, info.epoch, newest=99))
    assert [e.text for e in entries if e.kind is EntryKind.USER] == ["one", "two"]
    assert min(entry.seq for entry in entries) > old.last_seq


async def test_e5_an_epoch_alone_can_be_exported(store: Store) -> None:
    await talk(store, KEY, "one")
    await store.write(lambda tx: session_admin.reset(tx, KEY, NOW_MS))
    await talk(store, KEY, "two")
    lines = [line async for line in export_session(store, KEY, epoch=0)]
    assert len(lines) == 6
    assert not any(b"two" in line for line in lines)


@pytest.mark.parametrize("cut", [10, 60, 300, 700])
async def test_j2_a_session_whose_first_or_later_lines_are_lost_is_imported_and_continued(
    store: Store, cut: int
) -> None:
    await talk(store, KEY, "one", "two", "three")
    raw = await exported(store, KEY)
    target = SessionKey.of_chat("web", "saved")
    done = await imported(store, raw[cut:-40], target)
    assert 0 < done.entries < 15
    assert done.damage.skipped in {1, 2}
    await talk(store, target, "four")
    entries = await store.read(lambda tx: history.load(tx, target, 0, newest=99))
    assert [e.text for e in entries if e.kind is EntryKind.USER][-1] == "four"


async def test_a_number_that_comes_twice_is_kept_once(store: Store) -> None:
    raw = header_line(Header(key=str(KEY))) + line_of(1) + line_of(1, "again") + line_of(2)
    done = await imported(store, raw)
    assert (done.entries, done.damage.reasons) == (2, {"number used twice": 1})


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "holds no session"),
        (b"hello\nworld\n", "holds no session"),
        (line_of(1), "name a key"),
        (header_line(replace(Header(key="desk:C1"), version=2)), "newer clawbot"),
    ],
)
async def test_a_file_that_is_no_session_is_refused(store: Store, raw: bytes, problem: str) -> None:
    with pytest.raises(RequestRefused, match=problem):
        await imported(store, raw)
    assert await store.read(lambda tx: session_admin.is_free(tx, KEY))


# -- transcripts -----------------------------------------------------------------------------------


def keeper_of(store: Store, folder: Path) -> TranscriptKeeper:
    return TranscriptKeeper(store, SystemClock(), folder)


def transcript(folder: Path, key: SessionKey, epoch: int = 0) -> Path:
    return folder / "transcripts" / key.digest / f"{epoch:06d}.jsonl"


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def numbers_in(path: Path) -> list[int]:
    with path.open("rb") as file:
        return [one.entry.seq for one in read_session(file, Damage()) if isinstance(one, Record)]


async def numbers_of(store: Store, key: SessionKey, epoch: int = 0) -> list[int]:
    entries = await store.read(lambda tx: history.load(tx, key, epoch, newest=10_000))
    return [entry.seq for entry in entries]


async def test_transcripts_follow_the_store_and_go_on_after_a_restart(
    store: Store, tmp_path: Path
) -> None:
    keeper = keeper_of(store, tmp_path)
    await talk(store, KEY, "one")
    await keeper.catch_up()
    assert numbers_in(transcript(tmp_path, KEY)) == await numbers_of(store, KEY)
    await talk(store, KEY, "two")
    await talk(store, TASK, "other")
    await keeper.catch_up()
    await store.write(lambda tx: session_admin.reset(tx, KEY, NOW_MS))
    await talk(store, KEY, "three")
    await keeper_of(store, tmp_path).catch_up()
    for key, epoch in ((KEY, 0), (KEY, 1), (TASK, 0)):
        path = transcript(tmp_path, key, epoch)
        assert numbers_in(path) == await numbers_of(store, key, epoch)
        assert path.read_bytes().startswith(header_line(Header(key=str(key), epoch=epoch)))


async def test_what_a_stopped_turn_records_late_stands_in_its_own_epoch(
    store: Store, tmp_path: Path
) -> None:
    keeper = keeper_of(store, tmp_path)
    await ask(store, KEY, "work")
    (turn,) = await claim(store)
    await store.write(lambda tx: session_admin.reset(tx, KEY, NOW_MS))
    await keeper.catch_up()
    await store.write(
        lambda tx: history.append(
            tx, KEY, turn.epoch, 50, [Entry(kind=EntryKind.NOTE, text="late")], NOW_MS
        )
    )
    await ask(store, KEY, "next")
    await keeper.catch_up()
    assert numbers_in(transcript(tmp_path, KEY))[-1] == 50


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def zero(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:300] + b"\0" * 100 + raw[400:])


def swap(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))


@pytest.mark.parametrize(
    ("harm", "restarts"),
    [
        *((tear, True), (zero, True), (swap, True), (Path.unlink, True)),
        *((tear, False), (Path.unlink, False)),  # the others are seen at the next start
    ],
)
async def test_j2_a_damaged_transcript_is_made_anew_from_the_store(
    store: Store, tmp_path: Path, harm: Callable[[Path], None], restarts: bool
) -> None:
    keeper = keeper_of(store, tmp_path)
    await talk(store, KEY, "one", "two")
    await keeper.catch_up()
    harm(transcript(tmp_path, KEY))
    await talk(store, KEY, "three")
    await (keeper_of(store, tmp_path) if restarts else keeper).catch_up()
    assert numbers_in(transcript(tmp_path, KEY)) == await numbers_of(store, KEY)


async def test_transcripts_of_deleted_sessions_are_removed_also_after_a_restart(
    store: Store, tmp_path: Path
) -> None:
    keeper = keeper_of(store, tmp_path)
    await talk(store, KEY, "one")
    await talk(store, TASK, "two")
    await keeper.catch_up()
    saved = [saved_dir(tmp_path, key) for key in (KEY, TASK)]
    for folder in saved:
        folder.mkdir(parents=True)
    await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    await keeper.catch_up()
    assert not transcript(tmp_path, KEY).parent.exists()
    await store.write(lambda tx: deletion.delete_session(tx, TASK, NOW_MS))
    await keeper_of(store, tmp_path).catch_up()
    assert not transcript(tmp_path, TASK).parent.exists()
    assert not any(folder.exists() for folder in saved)


async def test_a_key_that_is_used_again_at_once_keeps_nothing_of_the_deleted_session(
    store: Store, tmp_path: Path
) -> None:
    keeper = keeper_of(store, tmp_path)
    await talk(store, KEY, "token_12345")
    await keeper.catch_up()
    await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    await talk(store, KEY, "a new life")
    await keeper.catch_up()
    kept = b"".join(path.read_bytes() for path in files_in(tmp_path))
    assert b"a new life" in kept
    assert b"token_12345" not in kept


async def test_a7_odd_keys_have_distinct_files_inside_the_state_dir(
    store: Store, tmp_path: Path
) -> None:
    ids = ["feishu_a", "a/b", "a\\b", "A", "a", "x" * 300, "😀", "../x", "..", "e\u0301", "é"]
    keys = [SessionKey.of_chat("feishu", one) for one in ids]
    keys += [SessionKey.of_chat("feishu", "a").with_task("../../x"), SessionKey.of_directory("..")]
    for number, key in enumerate(keys):
        await talk(store, key, f"I am {number}.")
    await keeper_of(store, tmp_path).catch_up()
    paths = files_in(tmp_path)
    assert len({str(path).casefold() for path in paths}) == len(keys) == len(paths)
    assert all(path.is_relative_to(tmp_path / "transcripts") for path in paths)
    for number, key in enumerate(keys):
        text = transcript(tmp_path, key).read_text()
        assert f"I am {number}." in text
        assert text.count("I am") == text.count(f"I am {number}.")
        copy = SessionKey.of_chat("web", f"copy-{number}")
        await imported(store, await exported(store, key), copy)
        entries = await store.read(lambda tx, copy=copy: history.load(tx, copy, 0, newest=9))
        assert entries[0].text == f"I am {number}."


@pytest.mark.parametrize(
    "path",
    ["state", "state/", "./state/clawbot.db", "state/../state/transcripts", "link/web.token"],
)
def test_tools_enter_no_state_directory_though_they_work_above_it(
    tmp_path: Path, path: str
) -> None:
    state = tmp_path / "state"
    prepare_state_dir(state)
    (state / "transcripts").mkdir()
    for name in ("clawbot.db", "web.token"):
        (state / name).write_text("secret")
    (tmp_path / "link").symlink_to("state")
    with pytest.raises(ToolError), open_file([tmp_path], path) as file:
        file.read()
    with pytest.raises(ToolError, match="permission denied"), open_directory([tmp_path], path):
        pass
    work_dir = state / "work" / "a"
    work_dir.mkdir(parents=True)
    (work_dir / "mine.md").write_text("mine")
    with open_file([work_dir], "mine.md") as file:  # a session's own directory lies in there
        assert file.read() == b"mine"


# -- tails -----------------------------------------------------------------------------------------


def test_j8_the_end_of_a_log_of_1_gb_is_found_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.write(line_of(1))
        file.truncate(1 << 30)  # a hole: it takes no room on the disk
        file.seek(0, 2)
        file.write(b"\n" + line_of(2) + line_of(3))
    tracemalloc.start()
    try:
        assert last_seq(path) == 3
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * TAIL_BYTES


async def test_j8_the_newest_entries_are_loaded_without_those_before(store: Store) -> None:
    row = {"session_key": str(KEY), "epoch": 0, "kind": "user", "created_ms": NOW_MS}
    rows = [{**row, "seq": number, "text": "x" * 10_000} for number in range(1, 3001)]
    await store.write(lambda tx: tx.conn.execute(insert(messages), rows).rowcount)
    rows.clear()

    def newest(tx: Transaction) -> tuple[list[int], int]:
        tracemalloc.start()
        try:
            entries = history.load(tx, KEY, 0, newest=20)
            return [entry.seq for entry in entries], tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    found, peak = await store.read(newest)
    assert found == list(range(2981, 3001))
    assert peak < 2_000_000
    await store.write(lambda tx: session_admin.open_session(tx, KEY, NOW_MS))
    page = await store.read(lambda tx: copies.page_of(tx, KEY, copies.Position()))
    assert len(page) == copies.PAGE
