"""Versions of a learner that others looked at, kept until the replay has come to the last look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.buffer.past_versions import past_of
from artos.specs.keys import PARAMS
from artos.transport.bfloat16 import BFLOAT16, rounded
from deploy.replay.difference import Over


class Versions:
    """Copies of the versions that are still to be bound; each binding is announced in ``bound``.

    ``copied`` are those that other learners copied with all that makes them up, once for each time.
    Actors were sent the weights as ``dtype``.
    """

    def __init__(
        self,
        weights: ObjectRegion,
        bound: Iterable[int],
        copied: Iterable[int] = (),
        dtype: str = "float32",
    ) -> None:
        self._dtype = dtype
        self._weights, self._slots = weights, dict[int, ObjectSlot]()
        self.make: Callable[[int], None] = lambda version: None
        """Has the learner go on until there is this version."""
        self._copies, self._states = Counter(copied), dict[int, dict[str, NDArray[Any]]]()
        self._wanted = Counter(each for version in bound for each in self._with_past(version))

    def _with_past(self, version: int) -> list[int]:
        spec = self._weights.spec
        return [version, *past_of(version, spec.history, spec.every)]

    def published(self) -> None:
        """There is a new version."""
        self.add(newest := self._weights.newest)
        if self._copies[newest.version]:
            state = {name: array.copy() for name, array in newest.arrays.items()}
            self._states[newest.version] = state

    def add(self, *slots: ObjectSlot) -> None:
        """There are these versions, too."""
        for slot in slots:
            if self._wanted[slot.version]:
                arrays = {a.name: slot.arrays[a.name].copy() for a in self._weights.spec.public}
                if self._dtype == BFLOAT16 and arrays[PARAMS].dtype == np.float32:
                    arrays[PARAMS] = rounded(arrays[PARAMS])
                words = np.array([slot.version, slot.firing], np.int64)
                self._slots[slot.version] = ObjectSlot(slot.number, words, arrays)

    def have(self, version: int) -> None:
        """Have this version made, if it is not there."""
        if version not in self._slots and version > self._weights.version:
            self.make(version)

    def state(self, version: int) -> dict[str, NDArray[Any]]:
        """All that makes up a version; nothing of that before the first.

        Raises:
            Over: it is not there yet.
        """
        if version < 0:
            return {}
        self.have(version)
        if version not in self._states:
            raise Over(f"version {version} was copied before it was there")
        self._copies[version] -= 1
        state = self._states[version]
        if not self._copies[version]:
            return self._states.pop(version)
        return {name: array.copy() for name, array in state.items()}

    def bind(self, version: int) -> list[ObjectSlot]:
        """A version and its past ones, from the newest on.

        Raises:
            Over: it is not there yet.
        """
        self.have(version)
        newest, *past = self._with_past(version)
        if newest not in self._slots:
            raise Over(f"version {version} was bound before it was there")
        found = [self._slots[newest], *(self._slots[each] for each in past if each in self._slots)]
        for each in (newest, *past):
            self._wanted[each] -= 1
            if self._wanted[each] <= 0:
                self._slots.pop(each, None)
        return found
