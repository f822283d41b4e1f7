"""Versions of weights that actors bound, kept until the replay has come to the last that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.buffer.past_versions import past_of
from deploy.replay.difference import Over


class Versions:
    """Copies of the versions that are still to be bound; each binding is announced in ``bound``."""

    def __init__(self, weights: ObjectRegion, bound: Iterable[int]) -> None:
        self._weights, self._slots = weights, dict[int, ObjectSlot]()
        self._wanted = Counter(each for version in bound for each in self._with_past(version))

    def _with_past(self, version: int) -> list[int]:
        spec = self._weights.spec
        return [version, *past_of(version, spec.history, spec.every)]

    def published(self) -> None:
        """There is a new version."""
        newest = self._weights.newest
        if self._wanted[newest.version]:
            arrays = {a.name: newest.arrays[a.name].copy() for a in self._weights.spec.public}
            words = np.array([newest.version, newest.firing], np.int64)
            self._slots[newest.version] = ObjectSlot(newest.number, words, arrays)

    def bind(self, version: int) -> list[ObjectSlot]:
        """A version and its past ones, from the newest on.

        Raises:
            Over: it is not there yet.
        """
        newest, *past = self._with_past(version)
        if newest not in self._slots:
            raise Over(f"version {version} was bound before it was there")
        found = [self._slots[newest], *(self._slots[each] for each in past if each in self._slots)]
        for each in (newest, *past):
            self._wanted[each] -= 1
            if self._wanted[each] <= 0:
                self._slots.pop(each, None)
        return found
