"""What a reader of weights has bound: the newest version, and past ones where these are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.buffer.past_versions import KeepingRegion
from artos.specs.bound import Bound
from artos.specs.keys import PARAMS, READS, noted_versions

Held = list[tuple[int, dict[str, NDArray[Any]]]]
"""Versions and copies of their arrays."""


class Binding:
    """Has the ``slots`` of the newest version and its past ones; they stay as they are."""

    def __init__(self, region: ObjectRegion) -> None:
        self.region, self.slots = region, list[ObjectSlot]()
        self._private: dict[str, NDArray[Any]] = {}
        self._copies: dict[int, ObjectSlot] = {}

    def renew(self, reader: int) -> None:
        """Bind those that are the newest now."""
        if isinstance(self.region, KeepingRegion):
            self.slots = self.region.bind_all(reader, self._private, self._copies)
        else:
            self.slots = [self.region.bind(reader, self._private)]

    def snapshot(self) -> Held:
        """Copies of what is bound, which may be in memory that others write to."""
        names = [array.name for array in self.region.spec.public]
        return [(each.version, {n: each.arrays[n].copy() for n in names}) for each in self.slots]

    def go_on(self, found: Iterable[tuple[int, dict[str, NDArray[Any]]]]) -> None:
        """Bind such copies."""
        self.slots = [ObjectSlot(0, np.array([version, 0]), of) for version, of in found]

    @property
    def pasts(self) -> tuple[Bound, ...]:
        """The past versions as actors see them."""
        return tuple(map(bound_of, self.slots[1:]))


def bound_of(slot: ObjectSlot) -> Bound:
    """A version as actors see it."""
    objects = {
        name.removeprefix(READS): array.copy()
        for name, array in slot.arrays.items()
        if name.startswith(READS)
    }
    return Bound(slot.version, slot.arrays[PARAMS], objects, noted_versions(slot.arrays))
