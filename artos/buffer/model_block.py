"""The model data block: the file of all versioned objects of a workload (paper §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from artos.buffer.doorbell import fence
from artos.buffer.layout import LAYOUT_VERSION, LINE, PAGE, WORD, align, description
from artos.buffer.object_region import ObjectRegion
from artos.buffer.segment import Segment
from artos.errors import LayoutMismatch, UnknownKey
from artos.specs.keys import ArraySpec

MAGIC = 0x4152544F_534D444C  # "ARTOSMDL"
_CHEAP = 64 << 20
_MOST_SLOTS = 256  # the slot's number is the lowest byte of the version word
_FEWEST = 4
MOST_PAST = (_MOST_SLOTS - _FEWEST) // 2 - 1
"""Past versions for which there are slots enough."""
_MAGIC = 0
_PRIVATE = "learner."


class ObjectSpec(msgspec.Struct, frozen=True):
    """One object of the model block: its arrays, and how many slots and readers it has.

    Arrays whose name begins with ``learner.`` are the learner's private state (optimiser moments);
    they share the slot and the version with the weights, so a crash never separates the two.
    ``history`` versions, each ``every``-th, are kept beside the newest one.
    """

    name: str
    arrays: tuple[ArraySpec, ...]
    readers: int
    slots: int
    history: int = 0
    every: int = 1

    @classmethod
    def sized(
        cls,
        name: str,
        arrays: Sequence[ArraySpec],
        readers: int,
        history: int = 0,
        every: int = 1,
    ) -> ObjectSpec:
        """Choose the slots: one per reader and two more if that is cheap, else four.

        Past versions have slots of their own, twice: some readers may still have the old ones.
        """
        size = sum(array.nbytes for array in arrays)
        past = 2 * (history + 1) if history else 0
        wanted = readers + 2 + past
        cheap = wanted <= _MOST_SLOTS and wanted * size <= _CHEAP
        slots = wanted if cheap else _FEWEST + past
        return cls(name, tuple(arrays), readers, slots, history, every)

    @property
    def pins(self) -> int:
        """Pins of the readers, each of one version and its past, and of the versions kept."""
        kept = self.history + 1 if self.history else 0
        return self.readers * (1 + self.history) + kept

    @property
    def public(self) -> tuple[ArraySpec, ...]:
        """The arrays that are not the learner's own: what actors bind."""
        return tuple(array for array in self.arrays if not array.name.startswith(_PRIVATE))

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot, each array on a line of its own."""
        return align(sum(align(array.nbytes, LINE) for array in self.arrays), PAGE)

    @property
    def header_bytes(self) -> int:
        """Bytes of the version word, the slot table and the pins."""
        return align(LINE * (1 + self.slots + self.pins), PAGE)


class ModelBlock:
    """All objects of one workload in one file."""

    def __init__(self, segment: Segment, specs: Sequence[ObjectSpec], start: int) -> None:
        self.segment = segment
        self.objects: dict[str, ObjectRegion] = {}
        offset = start
        for spec in specs:
            self.objects[spec.name] = _kind_of(spec)(segment.memory, offset, spec)
            offset += spec.header_bytes + spec.slots * spec.slot_bytes

    @classmethod
    def create(cls, path: Path, specs: Sequence[ObjectSpec]) -> ModelBlock:
        """Create the file at full size with every page present.

        Raises:
            ShmTooSmall: there is not enough shared memory; nothing is left behind.
        """
        text = msgspec.json.encode(list(specs))
        start = align(4 * WORD + len(text), PAGE)
        segment = Segment.create(path, block_bytes(specs))
        segment.memory[4 * WORD : 4 * WORD + len(text)] = text
        block = cls(segment, specs, start)
        for region in block.objects.values():
            region.format()
        words = np.ndarray(4, np.int64, segment.memory)
        words[1:] = (LAYOUT_VERSION, len(text), len(segment))
        fence()
        words[_MAGIC] = MAGIC
        return block

    @classmethod
    def attach(cls, path: Path) -> ModelBlock:
        """Map an existing block.

        Raises:
            LayoutMismatch: not a model block, or of another layout version.
        """
        segment = Segment.attach(path)
        start = 4 * WORD
        specs = description(str(path), segment.memory, MAGIC, start, list[ObjectSpec])
        if block_bytes(specs) != len(segment):
            found = f"{len(segment)} bytes instead of {block_bytes(specs)}"
            raise LayoutMismatch(str(path), found, LAYOUT_VERSION)
        return cls(segment, specs, align(start + len(msgspec.json.encode(specs)), PAGE))

    def __getitem__(self, name: str) -> ObjectRegion:
        try:
            return self.objects[name]
        except KeyError:
            raise UnknownKey(name, tuple(self.objects)) from None


def _kind_of(spec: ObjectSpec) -> type[ObjectRegion]:
    if not spec.history:
        return ObjectRegion
    from artos.buffer.past_versions import KeepingRegion  # noqa: PLC0415  # few runs keep any

    return KeepingRegion


def block_bytes(specs: Sequence[ObjectSpec]) -> int:
    """Bytes of the file of a model block with these objects."""
    text = msgspec.json.encode(list(specs))
    head = align(4 * WORD + len(text), PAGE)
    return head + sum(spec.header_bytes + spec.slots * spec.slot_bytes for spec in specs)
