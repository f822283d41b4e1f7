"""Rows on the wire: out of one block's cyclic arrays and into another's, key after key.

Header and rows are one frame. With several frames, libzmq 4.3.5 may mix two messages or abort the
process (``!_more (src/fq.cpp:80)``): a ROUTER with ROUTER_HANDOVER ends connections, and may lose
its place among them while it is between two frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import lz4.block
import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.errors import BadMessage
from artos.protocol.data import Answered, Chunk

Bytes = NDArray[np.uint8]
Packer = Callable[[str, Bytes], bytes | None]
"""Compresses the rows of a key; None: it decides that they are sent uncompressed."""

PIECE = 1 << 20
"""Approximate bytes of a chunk: larger chunks fit no cache, and LZ4 reads large blocks slowly."""


def parts_of(bulk: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """The content of a chunk, cut into parts of these sizes.

    Raises:
        BadMessage: the content is longer or shorter than the sum of the sizes.
    """
    if any(size < 0 for size in sizes) or sum(sizes) != len(bulk):
        raise BadMessage(f"{len(bulk)} bytes where {sum(sizes)} were announced")
    ends = np.cumsum((0, *sizes)).tolist()
    return [bulk[start:stop] for start, stop in pairwise(ends)]


class Rings:
    """The cyclic arrays of a block as plain bytes."""

    def __init__(self, block: ActorBlock) -> None:
        self.block = block
        keys = block.spec.all_keys
        self.row_bytes = {key.name: key.row_bytes(block.spec.envs) for key in keys}
        self._bytes: dict[str, Bytes] = {
            name: array.reshape(-1).view(np.uint8) for name, array in block.arrays.items()
        }

    def views(self, name: str, start: int, stop: int) -> list[Bytes]:
        """The bytes of rows ``start`` to ``stop`` in place: one view or, across the wrap, two."""
        size, array = self.row_bytes[name], self._bytes[name]
        spans = self.block.spans(start, stop)
        return [array[span.start * size : span.stop * size] for span in spans]

    def __repr__(self) -> str:
        return f"<Rings of {self.block!r}>"


def load(
    rings: Rings,
    term: int,
    keys: Sequence[str],
    rows: range,
    pack: Packer,
    *,
    ends: bool,
    answered: Answered = (),
) -> tuple[Chunk, list[Any]]:
    """A chunk of rows that do not wrap, and its parts: views of the rows, or results of ``pack``.

    Views are not copies: the rows must not change until the parts have been joined.
    """
    views = [rings.views(name, rows.start, rows.stop)[0] for name in keys]
    packed = [pack(name, view) for name, view in zip(keys, views, strict=True)]
    chunk = Chunk(
        rings.block.spec.actor,
        term,
        rows.start,
        rows.stop,
        tuple(keys),
        raw=tuple(view.nbytes for view in views),
        packed=tuple(each is not None for each in packed),
        ends=ends,
        answered=answered,
    )
    pairs = zip(views, packed, strict=True)
    parts = [view if each is None else each for view, each in pairs]
    sizes = tuple(len(part) for part in parts)
    return msgspec.structs.replace(chunk, sizes=sizes), parts


def unload(rings: Rings, chunk: Chunk, rows: range, frames: Sequence[Any]) -> None:
    """Write ``rows`` of a chunk into a block and commit them in all keys of the chunk at once.

    Raises:
        BadMessage: a part cannot be decompressed; nothing was changed.
    """
    parts = zip(chunk.packed, chunk.raw, frames, strict=True)
    contents = [_unpacked(frame, raw) if packed else frame for packed, raw, frame in parts]
    rings.block.reserve(rows.stop, chunk.keys)
    for name, content in zip(chunk.keys, contents, strict=True):
        _write(rings, name, rows, content, skip=rows.start - chunk.start)
    rings.block.commit(rows.stop, chunk.keys)


def _write(rings: Rings, name: str, rows: range, content: Any, skip: int) -> None:
    source = np.frombuffer(content, np.uint8, offset=skip * rings.row_bytes[name])
    at = 0
    for view in rings.views(name, rows.start, rows.stop):
        view[:] = source[at : at + view.nbytes]
        at += view.nbytes


def _unpacked(frame: Any, raw: int) -> bytes:
    try:
        content: bytes = lz4.block.decompress(frame, uncompressed_size=raw)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
        raise BadMessage(f"a part that is no LZ4 block: {error}") from error
    if len(content) != raw:
        raise BadMessage(f"a part of {len(content)} bytes where {raw} were announced")
    return content
