"""The frames of the long connection, by the SDK's own protobuf class and by nothing else of it.

`import lark_oapi` takes seconds and 130 MB, because its package imports every API there is. The
frame class needs none of that: it is loaded below bare packages, which are taken away again, so
that whoever imports the whole SDK later gets it. The SDK's version is pinned and this is tested.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGES = ("lark_oapi", "lark_oapi.ws")
_MODULE = "lark_oapi.ws.pb.pbbp2_pb2"

CONTROL = 0
DATA = 1


def load_frame_class() -> Any:
    """The SDK's `Frame`; falls back to importing the whole SDK where its layout has changed."""
    if any(name in sys.modules for name in _PACKAGES):
        return import_module(_MODULE).Frame
    spec = find_spec(_PACKAGES[0])
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    try:
        for name in _PACKAGES:
            bare = ModuleType(name)
            inner = name.removeprefix(_PACKAGES[0]).replace(".", "/")
            bare.__path__ = [f"{folder}{inner}" for folder in folders]
            bare.__spec__ = ModuleSpec(name, None, is_package=True)
            sys.modules[name] = bare
        return import_module(_MODULE).Frame
    except (ImportError, AttributeError):
        for name in _PACKAGES:
            sys.modules.pop(name, None)
        return import_module(_MODULE).Frame
    finally:
        for name in _PACKAGES:
            if getattr(sys.modules.get(name), "__file__", None) is None:
                sys.modules.pop(name, None)


_Frame = load_frame_class()


def decode(data: bytes) -> Any | None:
    """A frame as the SDK's object; None if these bytes are none."""
    frame = _Frame()
    try:
        frame.ParseFromString(data)
    except Exception:  # noqa: BLE001  # the SDK's copy of protobuf raises errors of many classes
        return None
    return frame if frame.IsInitialized() else None


def headers_of(frame: Any) -> dict[str, str]:
    """The headers of a frame."""
    return {header.key: header.value for header in frame.headers}


def ping(service_id: int) -> bytes:
    """The client's own sign of life."""
    frame = _Frame()
    frame.SeqID = frame.LogID = 0
    frame.service = service_id
    frame.method = CONTROL
    _add_header(frame, "type", "ping")
    return bytes(frame.SerializeToString())


def acknowledge(frame: Any, payload: bytes, took_ms: int) -> bytes:
    """The same frame, sent back with what became of it."""
    frame.payload = payload
    _add_header(frame, "biz_rt", str(took_ms))
    return bytes(frame.SerializeToString())


def _add_header(frame: Any, key: str, value: str) -> None:
    header = frame.headers.add()
    header.key = key
    header.value = value
