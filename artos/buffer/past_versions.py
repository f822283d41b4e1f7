"""Past versions of the weights, kept beside the newest for actors that play against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.doorbell import fence
from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.clock import Deadline
from artos.errors import DeadlineExceeded

if TYPE_CHECKING:
    from artos.buffer.model_block import ObjectSpec


def past_of(version: int, history: int, every: int) -> list[int]:
    """The versions before ``version`` that are kept for its readers, from the newest on."""
    last = (version - 1) // every * every
    return [past for past in range(last, last - history * every, -every) if past >= 0]


class KeepingRegion(ObjectRegion):
    """A region that keeps its last ``history`` versions of each ``every``-th for its readers.

    A version is kept in the slot that it was published in: by a pin of the writer's, which it sets
    before the next version is visible. One more is kept than readers of the newest version need,
    so that those of the version before still find theirs.
    """

    def __init__(self, memory: Any, offset: int, spec: ObjectSpec) -> None:
        super().__init__(memory, offset, spec)
        of_readers = spec.readers * (1 + spec.history)
        self._of_readers, self._keeps = self._pins[:of_readers], self._pins[of_readers:]

    # -- the writer ----------------------------------------------------------------------------

    def commit(self, slot: ObjectSlot, version: int, firing: int = 0) -> None:
        """Make the slot the newest version; the newest so far is kept if it is one of those."""
        if (last := self.version) >= 0 and last % self.spec.every == 0:
            self._keeps[self._place(last)] = self.newest.number
        super().commit(slot, version, firing)

    def keep(self, slot: ObjectSlot, version: int) -> None:
        """Make a slot that was allocated a past version, which is to be read with a newer one."""
        fence()
        slot.stamp(version)
        fence()
        self._keeps[self._place(version)] = slot.number

    def _place(self, version: int) -> int:
        return version // self.spec.every % len(self._keeps)

    @property
    def kept(self) -> tuple[int, ...]:
        """The versions that are kept. Only safe for its writer or while the writer is idle."""
        return tuple(self.slots[number].version for number in self._keeps if number >= 0)

    # -- readers -------------------------------------------------------------------------------

    def pin_all(self, reader: int, seconds: float = 10.0) -> list[ObjectSlot]:
        """Pin the newest version and its past ones, and return them from the newest on.

        Raises:
            DeadlineExceeded: nothing was published within ``seconds``, or ever newer versions.
        """
        deadline = Deadline(seconds)
        while not deadline.passed:
            newest = self.pin(reader, seconds)
            places = enumerate(past_of(newest.version, self.spec.history, self.spec.every), 1)
            found = [self._pin_past(reader, at, version) for at, version in places]
            if self.version == newest.version:  # else some may have been given up meanwhile
                return [newest, *(slot for slot in found if slot is not None)]
        raise DeadlineExceeded(f"versions of {self.spec.name!r} that belong together", seconds)

    def _pin_past(self, reader: int, at: int, version: int) -> ObjectSlot | None:
        """The slot of a version if it is kept, pinned in place ``at`` of the reader's."""
        number = int(self._keeps[self._place(version)])
        self._pins[reader + at * self.spec.readers] = number
        fence()
        if number < 0 or (slot := self.slots[number]).version != version:
            self._pins[reader + at * self.spec.readers] = -1
            return None
        return slot.held(version)

    def unpin(self, reader: int) -> None:
        """Let all slots of the reader go; also called for a reader that died."""
        fence()
        self._of_readers[reader :: self.spec.readers] = -1

    def bind_all(
        self,
        reader: int,
        private: dict[str, NDArray[Any]],
        copies: dict[int, ObjectSlot],
    ) -> list[ObjectSlot]:
        """The newest version and its past ones, each in place or copied as ``bind`` has it.

        ``copies`` are those of the past versions that were bound before, which need not be copied
        again.
        """
        newest, *pasts = slots = self.pin_all(reader)
        for version in copies.keys() - {past.version for past in pasts}:
            del copies[version]
        if self._leaves_a_slot():
            return slots
        for past in pasts:
            if past.version not in copies:
                copies[past.version] = self._copied(past, {})
        copy = self._copied(newest, private)
        self.unpin(reader)
        return [copy, *(copies[past.version] for past in pasts)]

    def _copied(self, slot: ObjectSlot, into: dict[str, NDArray[Any]]) -> ObjectSlot:
        source: Mapping[str, NDArray[Any]] = slot.arrays
        for array in self.spec.public:
            if array.name not in into:
                into[array.name] = np.empty(array.shape, array.dtype)
            np.copyto(into[array.name], source[array.name])
        return ObjectSlot(slot.number, np.array([slot.version, slot.firing], np.int64), into)

    def _leaves_a_slot(self) -> bool:
        # What is pinned stays so, while the writer goes on to keep as many other slots.
        pinned = {*self._of_readers.tolist()} - {-1}
        return len(pinned) <= len(self.slots) - 2 - len(self._keeps)


def pinned(region: ObjectRegion, reader: int) -> list[ObjectSlot]:
    """The newest version, pinned, and its past ones if the region keeps any."""
    return region.pin_all(reader) if isinstance(region, KeepingRegion) else [region.pin(reader)]


def past_versions(region: ObjectRegion) -> tuple[int, ...]:
    """The versions that a region keeps. Only safe for its writer or while the writer is idle."""
    return region.kept if isinstance(region, KeepingRegion) else ()
