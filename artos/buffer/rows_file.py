"""The rows of a run's blocks as one safetensors file, written from shared memory and read into it.

The tensors are called ``actor-N.KEY`` and have the rows that were there, oldest first: shape
(rows, environments, *shape of the key). The bytes go from the mapping to the file by ``writev``,
and the checksum is that of the file's pages, so no row is copied in this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128_hexdigest

from artos.buffer.actor_block import ActorBlock
from artos.errors import CheckpointFault
from artos.specs.fields import Count, PathText, Small
from artos.system.regular_file import opened

_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32",
    "float64": "F64",
}  # fmt: skip
_NUMPY = {ours: theirs for theirs, ours in _DTYPES.items()}
_MOST_VIEWS = 512

Bytes = NDArray[np.uint8]


class KeyRows(msgspec.Struct, frozen=True):
    """The counters of a key: the file holds its rows from ``first`` on."""

    first: Count
    whole: Count
    """Rows before this one were being overwritten while the file was written."""
    released: Count = 0
    cursors: tuple[tuple[Count, Count], ...] = ()
    """What each consumer has claimed and acknowledged."""


class BlockRows(msgspec.Struct, frozen=True):
    """An actor's rows in the file: those below ``written``; ``keys`` by name."""

    actor: Small
    incarnation: Count
    written: Count
    keys: dict[str, KeyRows]


class RowsFile(msgspec.Struct, frozen=True):
    """A file of rows: its name, the checksum of its bytes, and what it holds."""

    file: PathText
    xxh3: str
    blocks: tuple[BlockRows, ...]


def write_rows(path: Path, blocks: Mapping[int, ActorBlock]) -> RowsFile:
    """Write all rows that are there, also while actors write more; the file is synced, not renamed.

    Raises:
        OSError: it cannot be written, e.g. as the disk is full.
    """
    before = [_there(block) for block in blocks.values()]
    pieces: list[Any] = [_header(blocks, before)]
    for block, rows in zip(blocks.values(), before, strict=True):
        for name, key in rows.keys.items():
            views = block.views(name, key.first, rows.written)
            pieces += [view.reshape(-1).view(np.uint8).data for view in views]
    with path.open("wb", buffering=0) as file:
        _write_all(file.fileno(), pieces)
        os.fsync(file.fileno())
    # Like a sequence lock: what may have been overwritten while it was written does not count.
    after = []
    for block, rows in zip(blocks.values(), before, strict=True):
        keys = {
            name: msgspec.structs.replace(key, whole=min(block.oldest(name), rows.written))
            for name, key in rows.keys.items()
        }
        after.append(msgspec.structs.replace(rows, keys=keys))
    return RowsFile(path.name, xxh3_128_hexdigest(_mapped(path).data), tuple(after))


def check_rows(path: Path, rows: RowsFile) -> None:
    """Check that the file is there and whole.

    Raises:
        CheckpointFault: it is missing, damaged or truncated.
    """
    try:
        same = xxh3_128_hexdigest(_mapped(path).data) == rows.xxh3
    except (OSError, ValueError) as error:
        why = f"{path.name} cannot be read ({error}); copy the whole checkpoint folder"
        raise CheckpointFault(str(path.parent), why) from error
    if not same:
        why = f"{path.name} is damaged or truncated (checksum differs); restore it from a copy"
        raise CheckpointFault(str(path.parent), why)


def read_rows(path: Path, rows: RowsFile, blocks: Mapping[int, ActorBlock]) -> None:
    """Fill new, empty blocks with the rows and the counters of a file that was checked.

    Raises:
        CheckpointFault: it holds other keys, or rows of another shape, than the blocks.
    """
    data = _mapped(path)
    try:
        tensors, body = _tensors(data)
        there = [each for each in rows.blocks if each.actor in blocks]
        for each in there:
            _check_fit(blocks[each.actor], each, tensors)
        for each in there:
            _fill(blocks[each.actor], each, tensors, body)
    except (ValueError, LookupError, TypeError) as error:
        why = (
            f"its rows do not fit ({error}): resume with the same settings, or leave them out by "
            "--set checkpoint=model"
        )
        raise CheckpointFault(str(path.parent), why) from error


def rows_of(path: Path, rows: RowsFile) -> list[dict[str, NDArray[Any]]]:
    """The rows of each actor that are whole, by data key, mapped for reading: (rows, ...), oldest
    first, where the actor has any.

    Raises:
        OSError, ValueError, LookupError, TypeError: it is missing, or damaged.
    """
    data = _mapped(path)
    tensors, body = _tensors(data)
    found = []
    for block in rows.blocks:
        oldest = max(key.whole for key in block.keys.values())
        there = {
            name: _values(tensors[f"actor-{block.actor}.{name}"], body)[oldest - key.first :]
            for name, key in block.keys.items()
        }
        if oldest < block.written:
            found.append(there)
    return found


def _tensors(data: Bytes) -> tuple[dict[str, Any], Bytes]:
    """What the file's header says of its tensors, and the bytes that these lie in."""
    size = int(data[:8].view(np.int64)[0])
    return json.loads(data[8 : 8 + size].tobytes()), data[8 + size :]


def _values(facts: Mapping[str, Any], body: Bytes) -> NDArray[Any]:
    """A tensor in place."""
    start, stop = facts["data_offsets"]
    return body[start:stop].view(_NUMPY[facts["dtype"]]).reshape(facts["shape"])


def _mapped(path: Path) -> Bytes:
    """The bytes of a file, mapped for reading."""
    with opened(path) as file:
        return np.memmap(file, np.uint8, "r")


# -- writing -----------------------------------------------------------------------------------


def _there(block: ActorBlock) -> BlockRows:
    written = block.written
    keys = {
        name: KeyRows(
            first := min(block.oldest(name), written),
            first,
            header.released,
            tuple(header.cursor(n) for n in range(len(block.spec.consumers))),
        )
        for name, header in block.headers.items()
    }
    return BlockRows(block.spec.actor, block.incarnation, written, keys)


def _header(blocks: Mapping[int, ActorBlock], found: list[BlockRows]) -> bytes:
    tensors: dict[str, Any] = {}
    at = 0
    for block, rows in zip(blocks.values(), found, strict=True):
        for name, key in rows.keys.items():
            array, count = block.arrays[name], rows.written - key.first
            end = at + count * array.strides[0]
            shape = [count, *array.shape[1:]]
            dtype = _DTYPES[array.dtype.name]
            tensors[f"actor-{rows.actor}.{name}"] = {
                "dtype": dtype, "shape": shape, "data_offsets": [at, end],
            }  # fmt: skip
            at = end
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _write_all(descriptor: int, pieces: list[Any]) -> None:
    left = [memoryview(piece) for piece in pieces if len(piece)]
    while left:
        done = os.writev(descriptor, left[:_MOST_VIEWS])
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if left:
            left[0] = left[0][done:]


# -- reading -----------------------------------------------------------------------------------


def _check_fit(block: ActorBlock, rows: BlockRows, tensors: Any) -> None:
    prefix = f"actor-{rows.actor}."
    theirs = {name.removeprefix(prefix) for name in tensors if name.startswith(prefix)}
    if differing := sorted(theirs ^ block.headers.keys()):
        raise ValueError(f"keys {', '.join(differing)}")
    for name in rows.keys:
        facts, array = tensors[prefix + name], block.arrays[name]
        found = (facts["dtype"], facts["shape"][1:])
        wanted = (_DTYPES[array.dtype.name], list(array.shape[1:]))
        if found != wanted:
            raise ValueError(f"{name!r} is {found} instead of {wanted}")


def _fill(block: ActorBlock, rows: BlockRows, tensors: Any, body: Bytes) -> None:
    for name, key in rows.keys.items():
        there = _values(tensors[f"actor-{rows.actor}.{name}"], body)
        capacity, header = block.spec.capacity, block.headers[name]
        oldest = max(key.whole, rows.written - capacity)
        at = oldest - key.first
        for view in block.views(name, oldest, rows.written):
            view[...] = there[at : at + len(view)]
            at += len(view)
        header.set_reserved(oldest + capacity if oldest else rows.written)
        header.set_released(key.released)
        for consumer, cursor in enumerate(key.cursors):
            header.set_cursor(consumer, *cursor)
    block.commit(rows.written)
    block.incarnation = rows.incarnation
