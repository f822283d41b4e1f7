"""Messages as bytes and back: tagged, typed, versioned, no pickle.

A message on a socket is one frame of MessagePack. Never more: between two frames of one message
libzmq 4.3.5 may abort the process when a connection ends (``!_more (src/fq.cpp:80)``), on a calling
socket or on one with ROUTER_HANDOVER. The content of a ``Bulk`` message is not packed: its frame is
0xC1 (which begins no MessagePack), two bytes with the length of the header, the header, the
content. A message that does not fit its type or the ranges of ``artos.specs.fields`` raises
``BadMessage``: it is counted, answered with ``Refusal``, and changes nothing.
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

_FRONT = 3  # bytes before the header of a bulk message


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
    """A message as one frame; ``content``, in pieces, replaces the field ``content``."""
    if not isinstance(message, Bulk):
        return _encode(message)
    pieces = content or (message.content,)  # type: ignore[attr-defined]
    header = _encode(msgspec.structs.replace(message, content=NOTHING))
    return b"".join((bytes((MARK, *divmod(len(header), 256))), header, *pieces))


def decode(frame: bytes | memoryview) -> Message:
    """The message in a frame.

    Raises:
        BadMessage: the frame is not a valid message; the error names the wrong field.
    """
    if len(frame) < _FRONT or frame[0] != MARK:
        return _unpacked(frame)
    frame = memoryview(frame)
    end = _FRONT + frame[1] * 256 + frame[2]
    return _unpacked_bulk(frame[_FRONT:end], frame[end:])
