"""Where everything lies in an actor block file: pure arithmetic, shared by writer and readers."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np

from artos.errors import LayoutMismatch
from artos.specs.keys import VERSION_KEY, DataKey, OnFull
from artos.specs.unreadable import UNREADABLE

MAGIC = 0x4152544F_53424C4B  # "ARTOSBLK"
LAYOUT_VERSION = 1
WORD = 8
LINE = 64
PAGE = 4096
PREAMBLE_BYTES = 512
KEY_HEADER_BYTES = 512
MAX_CONSUMERS = 8
MAX_KEYS = 8 * WORD - 1
"""Of a block, the policy version included: each is a bit of the signed word of what is committed.
"""


class Consumer(msgspec.Struct, frozen=True):
    """A named cursor over some keys: their consumer claims ranges of rows and acknowledges them."""

    name: str
    keys: tuple[str, ...]


class BlockSpec(msgspec.Struct, frozen=True):
    """Everything that fixes the layout of one actor's block; stored in the block itself.

    ``capacity`` counts rows. ``history`` rows before the released ones stay readable, so that the
    frame stacks of the oldest claimed rows can still be rebuilt.
    """

    actor: int
    keys: tuple[DataKey, ...]
    capacity: int
    envs: int = 1
    consumers: tuple[Consumer, ...] = ()
    on_full: OnFull = "wait"

    @property
    def all_keys(self) -> tuple[DataKey, ...]:
        """The declared keys and the implied policy version of every row."""
        return (*self.keys, DataKey(VERSION_KEY, (), "int64", per_env=False))

    @property
    def history(self) -> int:
        """Rows kept readable before the released ones."""
        return max((key.stack for key in self.keys), default=1) - 1


class Layout:
    """Byte offsets of the parts of an actor block.

    ::

        0      preamble: magic, layout version, incarnation, write intent, semaphore
        512    BlockSpec as JSON
        ...    one 512-byte header block per key (64-byte lines: facts, writer, consumers)
        ...    one page-aligned cyclic array per key
    """

    def __init__(self, spec: BlockSpec) -> None:
        self.text = msgspec.json.encode(spec)
        self.headers: dict[str, int] = {}
        self.arrays: dict[str, int] = {}
        offset = align(PREAMBLE_BYTES + len(self.text), LINE)
        for key in spec.all_keys:
            self.headers[key.name] = offset
            offset += KEY_HEADER_BYTES
        for key in spec.all_keys:
            offset = align(offset, PAGE)
            self.arrays[key.name] = offset
            offset += key.row_bytes(spec.envs) * spec.capacity
        self.size = align(offset, PAGE)


T = TypeVar("T")


def description(path: str, memory: memoryview, magic: int, start: int, kind: type[T]) -> T:
    """Check the first four words of a block file and decode the description at ``start``.

    The words are: magic number, layout version, bytes of the description, bytes of the file.

    Raises:
        LayoutMismatch: the file is another kind of block, half created, truncated, or of another
            layout version.
    """
    if len(memory) < start:
        raise LayoutMismatch(path, f"only {len(memory)} bytes", LAYOUT_VERSION)
    found_magic, version, text_bytes, size = np.ndarray(4, np.int64, memory).tolist()
    if found_magic != magic:
        raise LayoutMismatch(path, "another magic number", LAYOUT_VERSION)
    if version != LAYOUT_VERSION:
        raise LayoutMismatch(path, version, LAYOUT_VERSION)
    if size != len(memory):
        raise LayoutMismatch(path, f"{len(memory)} bytes instead of {size}", LAYOUT_VERSION)
    try:
        return msgspec.json.decode(memory[start : start + text_bytes], type=kind)
    except UNREADABLE as error:
        what = f"an unreadable description ({error})"
        raise LayoutMismatch(path, what, LAYOUT_VERSION) from error


def words_of(memory: memoryview, offset: int, count: int) -> memoryview:
    """``count`` signed 64-bit words of the mapping, each read and written in one piece."""
    return memory[offset : offset + count * WORD].cast("q")


def align(offset: int, to: int) -> int:
    """The next multiple of ``to`` at or after ``offset``."""
    return -(-offset // to) * to
