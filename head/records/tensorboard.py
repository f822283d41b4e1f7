"""TensorBoard scalars, written directly: the usual writer would load torch into the process.

The format is public: TFRecord framing (length, masked CRC-32C, data, masked CRC-32C) around
protocol buffers of TensorFlow's ``event.proto``.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from artos.system.append_file import AppendFile

_POLYNOMIAL = 0x82F63B78
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


class EventFile:
    """One event file; every call appends whole records, so a killed writer loses at most one."""

    def __init__(self, folder: Path, resumed_at: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = (
            f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        )
        self.path = folder / f"events.out.tfevents.{stamp}"
        self._file = AppendFile(self.path, new=True)
        self._write(_field(3, b"brain.Event:2"))
        if resumed_at is not None:
            start = _field(7, _key(1, _VARINT) + _varint(1))
            # Readers hide the events of earlier files from this step on.
            self._write(_key(2, _VARINT) + _varint(resumed_at + 1) + start)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Append ``values`` (tag → number) at environment step ``step``."""
        parts = [
            _field(1, _field(1, tag.encode()) + _key(2, _FLOAT) + _float(value))
            for tag, value in values.items()
        ]
        self._write(_key(2, _VARINT) + _varint(step) + _field(5, b"".join(parts)))

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()

    def __repr__(self) -> str:
        return f"<EventFile {self.path}>"

    def _write(self, event: bytes) -> None:
        data = _key(1, _DOUBLE) + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(data))
        self._file.append(length + _masked_crc(length) + data + _masked_crc(data))


def _field(number: int, data: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(data)) + data


def _key(number: int, wire: int) -> bytes:
    return bytes([number << 3 | wire])


def _float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # finite, but not as float32, which is all the format has
        return struct.pack("<f", math.copysign(math.inf, value))


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
