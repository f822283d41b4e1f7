"""Files of TensorBoard's events, written directly: its usual writers would load torch here.

The format is public: TFRecord framing (length, masked CRC-32C, data, masked CRC-32C) around
protocol buffers of TensorFlow's ``event.proto``, ``summary.proto`` and ``tensor.proto``.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from artos.system.append_file import AppendFile

_POLYNOMIAL = 0x82F63B78
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_TENSOR_OF_FLOATS, _TENSOR_OF_TEXT = 1, 7


class EventFile:
    """One event file; every call appends whole records, so a killed writer loses at most one."""

    def __init__(self, folder: Path, resumed_at: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = (
            f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        )
        self.path = folder / f"events.out.tfevents.{stamp}"
        self._file = AppendFile(self.path, new=True)
        self._write(field(3, b"brain.Event:2"))
        if resumed_at is not None:
            # Readers hide the events of earlier files from this step on.
            self._write(number(2, resumed_at + 1) + field(7, number(1, 1)))

    def write(self, step: int, values: Iterable[bytes]) -> None:
        """Append ``values``, as the functions below make them, at environment step ``step``."""
        summary = b"".join(field(1, value) for value in values)
        self._write(number(2, step) + field(5, summary))

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()

    def __repr__(self) -> str:
        return f"<EventFile {self.path}>"

    def _write(self, event: bytes) -> None:
        data = real(1, time.time()) + event
        length = struct.pack("<Q", len(data))
        self._file.append(length + _masked_crc(length) + data + _masked_crc(data))


def scalar(tag: str, value: float) -> bytes:
    """A number; what is finite but too large for float32, which is all there is, is infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return field(1, tag.encode()) + _key(2, _FLOAT) + packed


def histogram(tag: str, edges: Sequence[float], counts: Sequence[int]) -> bytes:
    """``counts`` of the classes between ``edges``, of which there is one more."""
    middles = [(first + last) / 2 for first, last in pairwise(edges)]
    sums = (
        float(sum(counts)),
        sum(count * middle for count, middle in zip(counts, middles, strict=True)),
        sum(count * middle**2 for count, middle in zip(counts, middles, strict=True)),
    )
    content = real(1, edges[0]) + real(2, edges[-1])
    content += b"".join(real(at, value) for at, value in enumerate(sums, 3))
    content += field(6, _doubles(edges[1:])) + field(7, _doubles(counts))
    return field(1, tag.encode()) + field(5, content)


def image(tag: str, png: bytes) -> bytes:
    """A picture with red, green, blue and opacity."""
    width, height = struct.unpack(">II", png[16:24])  # in the first chunk of every PNG file
    content = number(1, height) + number(2, width) + number(3, 4) + field(4, png)
    return field(1, tag.encode()) + field(4, content)


def text(tag: str, markdown: str) -> bytes:
    """Words, as Markdown."""
    shape = field(2, number(1, 1))
    tensor = number(1, _TENSOR_OF_TEXT) + field(2, shape) + field(8, markdown.encode())
    return field(1, tag.encode()) + field(8, tensor) + _of_plugin("text", b"")


def session_start(values: Mapping[str, bool | float | str], name: str) -> bytes:
    """The hyper-parameters of a run, for the plugin of that name."""
    pairs = (field(1, field(1, key.encode()) + field(2, _any(v))) for key, v in values.items())
    content = b"".join(pairs) + field(4, name.encode()) + real(5, time.time())
    return _session("session_start_info", field(3, content))


def session_end(*, failed: bool) -> bytes:
    """How the run ended, for the same plugin."""
    return _session("session_end_info", field(4, number(1, 1 + failed) + real(2, time.time())))


def _session(tag: str, content: bytes) -> bytes:
    # A value without a tensor is passed over by some readers.
    empty = number(1, _TENSOR_OF_FLOATS) + field(2, field(2, number(1, 0)))
    value = field(1, f"_hparams_/{tag}".encode()) + field(8, empty)
    return value + _of_plugin("hparams", content)


def _of_plugin(name: str, content: bytes) -> bytes:
    return field(9, field(1, field(1, name.encode()) + field(2, content)))


def _any(value: bool | float | str) -> bytes:
    """A ``google.protobuf.Value``."""
    if isinstance(value, bool):
        return number(4, value)
    return field(3, value.encode()) if isinstance(value, str) else real(2, value)


def field(of: int, data: bytes) -> bytes:
    """A field of a protocol buffer that has a length."""
    return _key(of, _BYTES) + _varint(len(data)) + data


def number(of: int, value: int) -> bytes:
    """A field that is a whole number of at least 0."""
    return _key(of, _VARINT) + _varint(value)


def real(of: int, value: float) -> bytes:
    """A field that is a float64."""
    return _key(of, _DOUBLE) + struct.pack("<d", value)


def _doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def _key(of: int, wire: int) -> bytes:
    return bytes([of << 3 | wire])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(_table_entry(value) for value in range(256))


def _masked_crc(data: bytes) -> bytes:
    """CRC-32C (Castagnoli), rotated and offset as TFRecord wants it, little endian."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
