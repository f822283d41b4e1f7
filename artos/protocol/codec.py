"""Messages as bytes and back: tagged, typed, versioned, no pickle.

A message on a socket is one frame of MessagePack. Never more: between two frames of one message
libzmq 4.3.5 may abort the process when a connection ends (``!_more (src/fq.cpp:80)``), a calling
socket's or one that hands names over. Of a ``Bulk`` message the content stays as it is, behind the
rest: 0xC1 (which begins no MessagePack), two bytes with the length of the rest, the rest, the
content. What does not fit its type or the ranges of ``artos.protocol.fields`` is a ``BadMessage``:
counted, answered with ``Refusal``, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec

from artos.protocol import control, data, steering
from artos.protocol import message as roots
from artos.protocol.message import MARK, NOTHING, Bulk, Message
from artos.protocol.unpacking import Unpacker

_FRONT = 3  # bytes before the rest of a bulk message


def _sent(module: ModuleType) -> Iterator[type[Message]]:
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, Message) and kind.__struct_config__.tag:
            yield kind


TYPES = tuple(kind for module in (roots, control, steering, data) for kind in _sent(module))
"""Every message that is sent."""

_encode = msgspec.msgpack.Encoder().encode
_BULKS = tuple(kind for kind in TYPES if issubclass(kind, Bulk))
_unpacked = Unpacker[Message](*(kind for kind in TYPES if kind not in _BULKS))
_unpacked_bulk = Unpacker[Message](*_BULKS)


def encode(message: Message, *content: Any) -> bytes:
    """A message as one frame; ``content`` that lies in pieces takes the place of the field's."""
    if not isinstance(message, Bulk):
        return _encode(message)
    pieces = content or (message.content,)  # type: ignore[attr-defined]
    rest = _encode(msgspec.structs.replace(message, content=NOTHING))
    return b"".join((bytes((MARK, *divmod(len(rest), 256))), rest, *pieces))


def decode(frame: bytes | memoryview) -> Message:
    """A message of any kind.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    if len(frame) < _FRONT or frame[0] != MARK:
        return _unpacked(frame)
    frame = memoryview(frame)
    end = _FRONT + frame[1] * 256 + frame[2]
    return _unpacked_bulk(frame[_FRONT:end], frame[end:])
