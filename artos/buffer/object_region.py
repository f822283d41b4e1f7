"""Versions of one object in slots: published, pinned, never torn or mixed (paper §4.2)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.copying import copy_into
from artos.buffer.doorbell import fence
from artos.buffer.layout import LINE, WORD, align
from artos.clock import Deadline
from artos.errors import DeadlineExceeded, NotFinite
from artos.specs.keys import MODEL_PARAM

if TYPE_CHECKING:
    from artos.buffer.model_block import ObjectSpec

_CURRENT = 0
_SLOT_WORDS = LINE // WORD
_WRITING = -1


class ObjectSlot:
    """One slot: arrays to write or read in place, and what they belong to."""

    def __init__(
        self, number: int, words: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> None:
        self.number, self._words, self.arrays = number, words, arrays

    @property
    def version(self) -> int:
        """The version these arrays hold; -1 while they are being written."""
        return int(self._words[0])

    @property
    def firing(self) -> int:
        """The firing whose invocation published this version."""
        return int(self._words[1])

    def held(self, version: int) -> ObjectSlot:
        """The same arrays with their own copy of the facts, for a reader that pinned the slot.

        The writer may mark a slot for a moment before it notices the pin.
        """
        return ObjectSlot(self.number, np.array([version, self.firing], np.int64), self.arrays)

    def stamp(self, version: int, firing: int = 0) -> None:
        """Mark what the arrays hold."""
        self._words[1] = firing
        self._words[0] = version


class ObjectRegion:
    """Slots of one object: publish writes an unpinned slot, then flips the version word.

    A reader writes its pin, then checks that the slot still holds the wanted version; the writer
    marks a slot, then checks that it is not pinned. With a fence between the two steps on both
    sides at least one of them sees the other, so a slot in use is never written.
    """

    def __init__(self, memory: Any, offset: int, spec: ObjectSpec) -> None:
        self.spec = spec
        words = np.ndarray(spec.header_bytes // WORD, np.int64, memory, offset)
        self._words = words
        pins = _SLOT_WORDS * (1 + spec.slots)
        self._pins = words[pins : pins + _SLOT_WORDS * spec.pins : _SLOT_WORDS]
        self.slots: list[ObjectSlot] = []
        for number in range(spec.slots):
            start = _SLOT_WORDS * (1 + number)
            at = offset + spec.header_bytes + number * spec.slot_bytes
            arrays: dict[str, NDArray[Any]] = {}
            for array in spec.arrays:
                arrays[array.name] = np.ndarray(array.shape, np.dtype(array.dtype), memory, at)
                at += align(array.nbytes, LINE)
            self.slots.append(ObjectSlot(number, words[start : start + _SLOT_WORDS], arrays))

    def format(self) -> None:
        """Make an empty region: no version, no pins, slots not readable."""
        self._words[_CURRENT] = self._pins[:] = -1
        for slot in self.slots:
            slot.stamp(_WRITING)

    @property
    def version(self) -> int:
        """The newest published version; -1 before the first."""
        current = int(self._words[_CURRENT])
        return -1 if current < 0 else current >> 8

    @property
    def newest(self) -> ObjectSlot:
        """The slot of the newest version. Only safe for its writer or while the writer is idle."""
        return self.slots[int(self._words[_CURRENT]) & 0xFF]

    # -- the writer ----------------------------------------------------------------------------

    def made_by(self) -> tuple[int, int]:
        """The newest version and the firing that made it; its writer may publish meanwhile."""
        while (version := self.version) >= 0:
            firing = self.newest.firing
            if self.version == version:
                return version, firing
        return -1, 0

    def allocate(self, seconds: float = 10.0) -> ObjectSlot:
        """A slot to write in place: not the newest, and not pinned.

        Raises:
            DeadlineExceeded: all slots stayed pinned; names the readers.
        """
        deadline = Deadline(seconds)
        while True:
            for slot in self.slots:
                if self._claim(slot):
                    return slot
            if deadline.passed:
                holders = [str(i) for i, pin in enumerate(self._pins) if pin >= 0]
                raise DeadlineExceeded(
                    f"a free slot of {self.spec.name!r}, pinned by readers {', '.join(holders)}",
                    seconds,
                )
            time.sleep(0.0005)  # readers copy out of a pinned slot in about a millisecond

    def _claim(self, slot: ObjectSlot) -> bool:
        current = int(self._words[_CURRENT])
        if (current >= 0 and current & 0xFF == slot.number) or slot.number in self._pins:
            return False
        before = slot.version
        slot.stamp(_WRITING, slot.firing)
        fence()
        if slot.number in self._pins:  # a reader came between: it may still find its version here
            slot.stamp(before, slot.firing)
            return False
        return True

    def commit(self, slot: ObjectSlot, version: int, firing: int = 0) -> None:
        """Make the slot the newest version. Until here no reader can see it."""
        fence()
        slot.stamp(version, firing)
        fence()
        # Version and slot in one word: nobody ever sees the one without the other.
        self._words[_CURRENT] = version << 8 | slot.number

    def publish(self, values: Mapping[str, Any], firing: int = 0) -> None:
        """Make a version of arrays, or of tensors on any device; raises as ``write`` does."""
        self.commit(self.write(values), self.version + 1, firing)

    def write(self, values: Mapping[str, Any]) -> ObjectSlot:
        """Copy arrays, or tensors on any device, to a slot, which is to be committed.

        Raises:
            NotFinite: a public value is NaN or infinite; there is no new version.
            DeadlineExceeded: see ``allocate``.
        """
        slot = self.allocate()
        copy_into({name: slot.arrays[name] for name in values}, values)
        for array in self.spec.public:
            public = slot.arrays[array.name]
            with np.errstate(over="ignore", invalid="ignore"):
                total = float(public.sum())  # finite: so is each; it may overflow where each is
            if not math.isfinite(total) and not np.isfinite(public).all():
                what = "a weight" if self.spec.name == MODEL_PARAM else self.spec.name
                raise NotFinite(what, total, self.version)
        return slot

    def restore(self, values: Mapping[str, Any]) -> None:
        """Fill arrays, or tensors on any device, with the newest version."""
        copy_into(values, self.newest.arrays)

    # -- readers -------------------------------------------------------------------------------

    def pin(self, reader: int, seconds: float = 10.0) -> ObjectSlot:
        """Pin and return the newest slot; it stays unchanged until unpinned or pinned again.

        Raises:
            DeadlineExceeded: nothing was published within ``seconds``.
        """
        deadline = Deadline(seconds)
        while not deadline.passed:
            current = int(self._words[_CURRENT])
            if current < 0:
                time.sleep(0.0005)
                continue
            slot = self.slots[current & 0xFF]
            self._pins[reader] = slot.number
            fence()
            if slot.version == current >> 8:
                return slot.held(current >> 8)
            # A newer version was published in between, and this slot taken for the next one.
        raise DeadlineExceeded(f"a published version of {self.spec.name!r}", seconds)

    def unpin(self, reader: int) -> None:
        """Let the reader's slot go; also called for a reader that died."""
        fence()
        self._pins[reader] = -1

    def bind(self, reader: int, private: dict[str, NDArray[Any]]) -> ObjectSlot:
        """The newest version for a rollout: in place if that leaves the writer a slot, else copied.

        A copy goes to ``private``, whose arrays are made at the first use. The slot returned then
        has the version but is not part of the block, and nothing stays pinned.
        """
        slot = self.pin(reader)
        # In place there is one copy of the weights on a node, however many actors it has.
        if self._leaves_a_slot():
            return slot
        for array in self.spec.public:
            if array.name not in private:
                private[array.name] = np.empty(array.shape, array.dtype)
            np.copyto(private[array.name], slot.arrays[array.name])
        copy = ObjectSlot(slot.number, np.array([slot.version, slot.firing], np.int64), private)
        self.unpin(reader)
        return copy

    def _leaves_a_slot(self) -> bool:
        # Of readers that pin at once, the last sees all pins, so too many pins never stay.
        return len({*self._pins.tolist()} - {-1}) <= len(self.slots) - 2

    def __repr__(self) -> str:
        return f"<ObjectRegion {self.spec.name} version={self.version} pins={self._pins.tolist()}>"
