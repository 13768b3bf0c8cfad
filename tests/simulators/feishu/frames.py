"""The long connection's binary frames: protobuf, written and read by hand.

message Frame {
  required uint64 SeqID = 1; required uint64 LogID = 2; required int32 service = 3;
  required int32 method = 4; repeated Header headers = 5; optional string payload_encoding = 6;
  optional string payload_type = 7; optional bytes payload = 8; optional string LogIDNew = 9;
}
message Header { required string key = 1; required string value = 2; }
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

CONTROL = 0
DATA = 1
_VARINT = 0
_BYTES = 2
_LAST_BITS = 0x7F
_MORE = 0x80


class BadFrame(ValueError):
    """These bytes are no frame."""


@dataclass(slots=True, kw_only=True)
class Frame:
    """One frame."""

    method: int
    service: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    payload: bytes = b""
    seq_id: int = 0
    log_id: int = 0
    log_id_new: str = ""

    def encode(self) -> bytes:
        """As bytes on the wire."""
        numbers = (self.seq_id, self.log_id, self.service, self.method)
        out = b"".join(
            _varint(tag << 3 | _VARINT) + _varint(value) for tag, value in enumerate(numbers, 1)
        )
        for key, value in self.headers.items():
            out += _field(5, _field(1, key.encode()) + _field(2, value.encode()))
        if self.payload:
            out += _field(8, self.payload)
        return out + (_field(9, self.log_id_new.encode()) if self.log_id_new else b"")

    @classmethod
    def decode(cls, data: bytes) -> "Frame":
        """From bytes on the wire. Raise BadFrame."""
        frame = cls(method=-1)
        try:
            for tag, value in _fields(data):
                match tag, value:
                    case 1, int():
                        frame.seq_id = value
                    case 2, int():
                        frame.log_id = value
                    case 3, int():
                        frame.service = value
                    case 4, int():
                        frame.method = value
                    case 5, bytes():
                        pair = dict(_fields(value))
                        frame.headers[_text(pair[1])] = _text(pair[2])
                    case 8, bytes():
                        frame.payload = value
                    case 9, bytes():
                        frame.log_id_new = value.decode()
        except (IndexError, KeyError, UnicodeDecodeError) as error:
            raise BadFrame(f"no frame: {data[:40]!r}") from error
        if frame.method not in {CONTROL, DATA}:
            raise BadFrame(f"no frame: {data[:40]!r}")
        return frame


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > _LAST_BITS:
        out.append(value & _LAST_BITS | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | _BYTES) + _varint(len(value)) + value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(data):
        key, place = _read_varint(data, place)
        number, place = _read_varint(data, place)
        if key & 7 == _VARINT:
            yield key >> 3, number
        elif key & 7 == _BYTES and place + number <= len(data):
            yield key >> 3, data[place : place + number]
            place += number
        else:
            raise BadFrame("a field of a wrong type or length")


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & _LAST_BITS) << shift
        if byte < _MORE:
            return value, place
        shift += 7


def _text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
