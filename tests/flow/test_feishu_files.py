"""Files on Feishu, both ways: into the work directory, and from there into the chat."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.store import outbox
from tests.flow.daemon import Daemon
from tests.flow.feishu_ground import TRANSPORTS, connect, feishu_daemon
from tests.simulators.feishu import FeishuSimulator, SentMessage
from tests.simulators.model import ModelSimulator, Reply, ToolCall

PNG = b"\x89PNG\r\n\x1a\n" + b"picture" * 10_000
TEXT = b"the pump stands in room 4711\n" * 1000
OPUS = b"OggS" + b"\0" * 24 + b"OpusHead" + b"voice" * 1000
MP4 = b"\0\0\0\x18ftypmp42" + b"film" * 1000
KINDS = [
    ("plan.md", TEXT, "file"),
    ("计划 2026.pdf", b"%PDF-1.7 " + TEXT, "file"),
    ("map.png", PNG, "image"),
    ("voice.ogg", OPUS, "audio"),
    ("film.mp4", MP4, "media"),
]


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def daemon(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator, transport: str
) -> AsyncIterator[Daemon]:
    async with feishu_daemon(tmp_path, feishu, model, transport) as running:
        yield running


async def ask_for_file(
    feishu: FeishuSimulator, model: ModelSimulator, name: str, data: bytes, chat: str
) -> None:
    """Alice sends a file; the agent sends it back, then says so."""
    gate = model.hold(when=name)
    key = await feishu.add_file(name, data)
    await feishu.user_sends(chat, "alice", "file", {"file_key": key, "file_name": name})
    await gate.reached
    (path,) = re.findall(r"received/[0-9a-f]{8}-[^\n\]\)]+", model.requests[0].all_text)
    call = ToolCall(name="send_file", arguments={"path": path.strip(), "name": name})
    model.expect(Reply(tool_calls=(call,)), when=name)
    model.expect(Reply(text="Here it is."), marker="on its way")
    gate.release()


def files(feishu: FeishuSimulator) -> list[SentMessage]:
    return [sent for sent in feishu.sent() if sent.data]


@pytest.mark.parametrize(("name", "data", "kind"), KINDS)
async def test_a_file_goes_into_the_work_directory_and_comes_back_as_what_it_is(
    daemon: Daemon,
    feishu: FeishuSimulator,
    model: ModelSimulator,
    name: str,
    data: bytes,
    kind: str,
) -> None:
    chat = feishu.create_dm("alice")
    await ask_for_file(feishu, model, name, data, chat)
    await feishu.wait_text("Here it is.", chat=chat)
    await daemon.until_quiet()
    (found,) = (daemon.config.state_dir / "work").glob("*/received/*")
    assert found.read_bytes() == data
    (sent,) = files(feishu)
    assert (sent.kind, sent.data, sent.chat) == (kind, data, chat)
    assert sent.file_name == ("" if kind == "image" else name)
    assert await daemon.store.read(outbox.count_by_state) == {"sent": 2}


STEPS = ["image.create", "message.create"]
FAULTS = ["reset_before", "reset_after", "html", "bad_json", "http:503", "ratelimited:0.1:400"]


@pytest.mark.parametrize("transport", ["long_connection"])
@pytest.mark.parametrize("fault", [*FAULTS, "error:99991663"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_file_is_there_once_whatever_fails_on_the_way(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, step: str, fault: str
) -> None:
    feishu.fail_next(step, fault)
    await ask_for_file(feishu, model, "map.png", PNG, feishu.create_dm("alice"))
    await feishu.wait_text("Here it is.")
    await daemon.until_quiet()
    assert [(sent.kind, sent.data) for sent in files(feishu)] == [("image", PNG)]
    assert await daemon.store.read(outbox.count_by_state) == {"sent": 2}


@pytest.mark.parametrize("transport", ["long_connection"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_channel_that_ends_between_the_steps_sends_no_file_twice(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, step: str, transport: str
) -> None:
    feishu.fail_next(step, "hang_after")
    await ask_for_file(feishu, model, "map.png", PNG, feishu.create_dm("alice"))
    await feishu.wait_for(lambda: [call for call in feishu.calls(step) if call.processed])
    await daemon.kill("feishu")
    await daemon.start("feishu")
    await connect(daemon, feishu, transport)
    await feishu.wait_for(lambda: files(feishu), timeout_s=20)
    await feishu.wait_text("Here it is.", timeout_s=20)
    await daemon.until_quiet()
    assert [sent.data for sent in files(feishu)] == [PNG]


@pytest.mark.parametrize("transport", ["long_connection"])
@pytest.mark.parametrize("refusal", ["image.create error:234011", "message.create error:230055"])
async def test_what_feishu_does_not_take_as_a_picture_is_sent_as_a_file(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator, refusal: str
) -> None:
    feishu.fail_next(*refusal.split())
    await ask_for_file(feishu, model, "map.png", PNG, feishu.create_dm("alice"))
    await feishu.wait_text("Here it is.")
    await daemon.until_quiet()
    (sent,) = files(feishu)
    assert (sent.kind, sent.file_name, sent.data) == ("file", "map.png", PNG)


@pytest.mark.parametrize("transport", ["long_connection"])
async def test_a_file_that_feishu_does_not_take_at_all_is_told_in_its_place(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    feishu.take_scope("im:resource")
    chat = feishu.create_dm("alice")
    await ask_for_file(feishu, model, "map.png", PNG, chat)
    await feishu.wait_text("Here it is.")
    await daemon.until_quiet()
    told, _ = feishu.sent(chat)
    assert "map.png" in told.text
    assert "could not be sent" in told.text
    assert files(feishu) == []


@pytest.mark.parametrize("transport", ["long_connection"])
async def test_a_file_stands_in_the_topic_that_it_was_asked_for_in(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    board = feishu.create_group("board", ["alice"], topics=True)
    gate = model.hold(when="draw")
    await feishu.user_says(board, "alice", "draw a map", mention=True)
    await gate.reached
    (work,) = (daemon.config.state_dir / "work").glob("*")
    (work / "map.png").write_bytes(PNG)
    call = ToolCall(name="send_file", arguments={"path": "map.png"})
    model.expect(Reply(tool_calls=(call,)), when="draw")
    model.expect(Reply(text="Here it is."), marker="on its way")
    gate.release()
    await feishu.wait_text("Here it is.")
    await daemon.until_quiet()
    first, second = feishu.sent(board)
    assert (first.kind, first.data) == ("image", PNG)
    assert first.thread_id == second.thread_id != ""
