"""Files that the agent sends to people on WeChat and WeCom, from the work directory to the chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clawbot.session_key import SessionKey
from clawbot.work_dirs import make_work_dir, work_dir_of
from tests.flow.daemon import Daemon, run_daemon
from tests.flow.wechat_ground import (
    bot_keys,
    until_listening,
    wechat_keys,
    wecom_keys,
    write_channel,
)
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator

ALICE = "alice"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\x00picture\xff" * 30_000
SOUND = b"#!AMR\n" + b"\x01" * 500
FILM = b"\x00\x00\x00\x18ftypmp42" + b"\x02" * 500
PAPER = b"%PDF-1.7\n" + b"\x00\xff paper" * 100_000


@asynccontextmanager
async def daemon_with(
    folder: Path, model: ModelSimulator, keys: dict[str, Any], files: dict[str, bytes]
) -> AsyncIterator[Daemon]:
    """A daemon with one channel, and files in the work directory of its chat with Alice."""
    config = write_channel(folder, model.base_url("openai-chat"), keys)
    kind = keys["type"]
    async with run_daemon(config, "worker", kind) as daemon:

        def write() -> None:
            state_dir = daemon.config.state_dir
            work_dir = work_dir_of(state_dir, SessionKey.of_chat(kind, ALICE))
            make_work_dir(state_dir, work_dir)
            for name, data in files.items():
                (work_dir / name).write_bytes(data)

        await asyncio.to_thread(write)
        yield daemon


def sends(model: ModelSimulator, *names: str, then: str = "Here it is.", seen: str) -> None:
    """The model sends these files, reads `seen` of it, and answers."""
    calls = tuple(ToolCall(name="send_file", arguments={"path": name}) for name in names)
    model.expect(Reply(tool_calls=calls), when="send me")
    model.expect(Reply(text=then), marker=seen)


# -- the Official Account --------------------------------------------------------------------------


@pytest.fixture
def attempt_s() -> float:
    """WeChat's own five seconds; a test that waits for one to pass has shorter ones."""
    return 5.0


@pytest.fixture
async def wechat(attempt_s: float) -> AsyncIterator[WechatSimulator]:
    async with WechatSimulator(mode="safe", attempt_s=attempt_s) as simulator:
        yield simulator


@asynccontextmanager
async def account(
    folder: Path,
    model: ModelSimulator,
    wechat: WechatSimulator,
    files: dict[str, bytes],
    *,
    may_send: bool = True,
) -> AsyncIterator[Daemon]:
    wechat.may_send = may_send
    keys = wechat_keys(wechat, customer_service=may_send, attempt_s=wechat.attempt_s)
    async with daemon_with(folder, model, keys, files) as daemon:
        wechat.pusher.url = await until_listening(keys["listen_port"]) + "/wechat"
        yield daemon


async def test_pictures_sounds_and_videos_are_shown(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    files = {"图 1.png": PICTURE, "voice.amr": SOUND, "film.mp4": FILM}
    async with account(tmp_path, model, wechat, files) as daemon:
        sends(model, *files, seen="film.mp4 (")
        wechat.user_says(ALICE, "send me all of it")
        await wechat.wait_sent(4)
        await daemon.until_quiet()
        shown = [(file.kind, file.name, file.data) for file in wechat.files]
        assert sorted(shown) == [
            ("image", "图 1.png", PICTURE),
            ("video", "film.mp4", FILM),
            ("voice", "voice.amr", SOUND),
        ]
        assert wechat.sent()[-1] == "Here it is."


async def test_what_no_message_can_show_is_told_of(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    async with account(tmp_path, model, wechat, {"paper.pdf": PAPER}) as daemon:
        sends(model, "paper.pdf", seen="paper.pdf (")
        wechat.user_says(ALICE, "send me the paper")
        texts = await wechat.wait_sent(2)
        await daemon.until_quiet()
        assert any("paper.pdf" in text and "could not be sent" in text for text in texts)
        assert (wechat.files, wechat.refused()) == ([], [])


@pytest.mark.parametrize("attempt_s", [1.0])
async def test_files_count_and_the_last_message_is_kept_for_the_answer(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    files = {f"{number}.png": PICTURE + bytes([number]) for number in range(6)}
    async with account(tmp_path, model, wechat, files) as daemon:
        gate = model.hold("send me")
        sends(model, *files, then="These are all.", seen="5.png (")
        wechat.user_says(ALICE, "send me six pictures")
        await wechat.wait_settled()  # so that the answer needs a message of its own
        gate.release()
        texts = await wechat.wait_sent(5)
        await daemon.until_quiet()
        assert texts == ["[image]"] * 4 + ["These are all.\n\n(to be continued: send 1)"]
        wechat.user_says(ALICE, "1")
        await wechat.wait_sent(7)
        await daemon.until_quiet()
        assert sorted(file.data[-1] for file in wechat.files) == list(range(6))
        assert wechat.refused() == []
        assert len(model.requests) == 2


async def test_without_the_permission_the_model_is_told_that_files_cannot_be_sent(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    async with account(tmp_path, model, wechat, {"a.png": PICTURE}, may_send=False) as daemon:
        sends(model, "a.png", then="I describe it: red.", seen="This chat takes no files")
        wechat.user_says(ALICE, "send me a picture")
        assert await wechat.wait_sent(1) == ["I describe it: red."]
        await daemon.until_quiet()
        assert (wechat.files, wechat.calls) == ([], [])


async def test_a_permission_that_turns_out_to_be_missing_becomes_a_line_of_text(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    async with account(tmp_path, model, wechat, {"a.png": PICTURE}) as daemon:
        wechat.may_send = False
        sends(model, "a.png", seen="a.png (")
        wechat.user_says(ALICE, "send me a picture")
        await wechat.wait_sent(1)
        wechat.user_says(ALICE, "1")
        texts = await wechat.wait_sent(2)
        await daemon.until_quiet()
        assert min(texts, key=len).startswith("Here it is.")
        assert any("a.png" in text and "could not be sent" in text for text in texts)


# -- WeCom -----------------------------------------------------------------------------------------


@pytest.fixture
async def wecom() -> AsyncIterator[WecomSimulator]:
    async with WecomSimulator() as simulator:
        yield simulator


@pytest.mark.parametrize("fault", ["", "upload reset_after", "send reset_after", "send error:-1"])
async def test_a_member_gets_each_file_once(
    tmp_path: Path, model: ModelSimulator, wecom: WecomSimulator, fault: str
) -> None:
    files = {"图.jpg": b"\xff\xd8\xff" + PICTURE, "v.amr": SOUND, "f.mp4": FILM, "p.pdf": PAPER}
    keys = wecom_keys(wecom)
    async with daemon_with(tmp_path, model, keys, files) as daemon:
        wecom.pusher.url = await until_listening(keys["listen_port"]) + "/wecom"
        if fault:
            wecom.fail_next(*fault.split())
        sends(model, *files, seen="p.pdf (")
        wecom.user_says(ALICE, "send me all of it")
        await wecom.wait_sent(5)
        await daemon.until_quiet()
        shown = [(file.kind, file.name, file.data) for file in wecom.files]
        kinds = ("image", "voice", "video", "file")
        assert sorted(shown) == sorted(
            (kind, name, data) for kind, (name, data) in zip(kinds, files.items(), strict=True)
        )
        assert wecom.shown[-1].text == "Here it is."


async def test_a_bot_sends_files_by_its_long_connection(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with AibotSimulator() as aibot:
        files = {"big.png": PICTURE * 10, "paper.pdf": PAPER}
        async with daemon_with(tmp_path, model, bot_keys(aibot, "socket"), files) as daemon:
            await aibot.wait_linked()
            sends(model, *files, seen="paper.pdf (")
            aibot.user_says(ALICE, "send me both")
            await aibot.wait_text("Here it is.")
            await daemon.until_quiet()
            shown = {(file.user, file.kind, file.name) for file in aibot.uploads.files}
            # That picture is too large for a bot's.
            assert shown == {(ALICE, "file", "big.png"), (ALICE, "file", "paper.pdf")}
            assert {file.name: file.data for file in aibot.uploads.files} == files
            assert len(aibot.uploads.files) == 2


async def test_a_refused_file_does_not_take_the_place_of_the_answer(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with (
        AibotSimulator() as aibot,
        daemon_with(tmp_path, model, bot_keys(aibot, "socket"), {"fake.png": PAPER}) as daemon,
    ):
        await aibot.wait_linked()
        call = ToolCall(name="send_file", arguments={"path": "fake.png"})
        model.expect(Reply(text="I look.", tool_calls=(call,)), when="send me")
        model.expect(Reply(text="That was it."), marker="fake.png (")
        aibot.user_says(ALICE, "send me the picture")
        await aibot.wait_text("That was it.")
        await daemon.until_quiet()
        texts = {message.way: message.text for message in aibot.shown}
        assert texts["stream"] == "I look.\n\nThat was it."
        assert "fake.png" in texts["message"]


async def test_a_bot_that_is_called_by_webhook_sends_none(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with AibotSimulator() as aibot:
        keys = bot_keys(aibot, "webhook")
        async with daemon_with(tmp_path, model, keys, {"paper.pdf": PAPER}) as daemon:
            aibot.webhook_url = await until_listening(keys["listen_port"]) + "/wecom-bot"
            sends(model, "paper.pdf", then="It says: x.", seen="This chat takes no files")
            aibot.user_says(ALICE, "send me the paper")
            assert await aibot.wait_finished(1) == ["It says: x."]
            await daemon.until_quiet()
