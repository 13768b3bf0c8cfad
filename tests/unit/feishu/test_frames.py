"""The frame class of the SDK without the SDK."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from adapters.feishu import frames
from adapters.feishu.fragments import Fragments
from tests.simulators.feishu.frames import CONTROL, DATA, Frame

LIGHT = """
import sys
from adapters.feishu import frames
assert frames.decode(frames.ping(7)).service == 7
loaded = [name for name in sys.modules if name.startswith("lark_oapi")]
assert "lark_oapi" not in loaded, loaded
assert not [name for name in loaded if not name.startswith("lark_oapi.ws.pb")], loaded
import lark_oapi
assert lark_oapi.Client.builder, "the whole SDK can be had afterwards"
from lark_oapi.ws.pb.pbbp2_pb2 import Frame
assert Frame is frames._Frame
"""


def test_the_sdk_is_the_version_whose_layout_is_known() -> None:
    assert version("lark-oapi") == "1.7.5"


def test_only_the_frame_class_is_loaded_and_the_whole_sdk_can_still_be() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


def test_a_changed_layout_falls_back_to_the_whole_sdk() -> None:
    changed = "import adapters.feishu.frames as frames\n"
    patched = (
        "import importlib.machinery, sys\n"
        "real = importlib.machinery.ModuleSpec\n"
        "def broken(name, *rest, **more):\n"
        "    if name == 'lark_oapi' and rest == (None,): raise ImportError('moved')\n"
        "    return real(name, *rest, **more)\n"
        "importlib.machinery.ModuleSpec = broken\n"
    )
    check = "assert frames.decode(frames.ping(7)).service == 7; assert 'lark_oapi' in sys.modules"
    subprocess.run([sys.executable, "-c", patched + changed + check], check=True)


def test_frames_are_the_ones_on_the_wire() -> None:
    ping = Frame.decode(frames.ping(7))
    assert (ping.method, ping.service, ping.headers) == (CONTROL, 7, {"type": "ping"})
    headers = {"type": "event", "message_id": "m", "sum": "1", "seq": "0"}
    sent = Frame(method=DATA, service=7, headers=headers, payload=b"{}", seq_id=2**40, log_id=3)
    frame = frames.decode(sent.encode())
    assert frame is not None
    assert (frames.headers_of(frame), bytes(frame.payload)) == (headers, b"{}")
    back = Frame.decode(frames.acknowledge(frame, b'{"code": 200}', 12))
    assert back.headers == {**headers, "biz_rt": "12"}
    assert (back.payload, back.seq_id, back.log_id) == (b'{"code": 200}', 2**40, 3)


def test_bytes_that_are_no_frame_are_none() -> None:
    for junk in (b"", b"\xff", b"{}", b"\x08\x01", b"\x2a\xff\x01"):
        assert frames.decode(junk) is None


def test_fragments_are_joined_in_any_order_and_repeated_ones_count_once() -> None:
    fragments = Fragments()
    assert fragments.add("m", 3, 2, b"c", 0) is None
    assert fragments.add("m", 3, 0, b"a", 0) is None
    assert fragments.add("m", 3, 0, b"a", 0) is None
    assert fragments.add("other", 2, 0, b"x", 0) is None
    assert fragments.add("m", 3, 1, b"b", 0) == b"abc"


def test_fragments_that_cannot_be_are_dropped_and_old_ones_forgotten() -> None:
    fragments = Fragments()
    assert fragments.add("m", 2, 2, b"x", 0) is None
    assert fragments.add("m", 10_000_000, 0, b"x", 0) is None
    assert fragments.add("m", 2, 0, b"old", 0) is None
    assert fragments.add("n", 2, 0, b"new", 1_000) is None
    assert fragments.add("m", 2, 1, b"late", 1_000) is None
