"""The objects that the learner publishes beside the weights: new versions and newest values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion
from artos.specs.keys import VALUE
from triggers.events import Published

_READER = 0
_SMALL = 128
"""Bytes of an object whose value is told with its versions."""


class Newest(NamedTuple):
    """An object's version when it was read, and a copy of its ``value``."""

    version: int
    value: NDArray[Any]


class Objects:
    """Objects of the model block, each with versions of its own (paper Figure 9).

    A resumed run announces the versions it continues from, not all that led to them.
    """

    def __init__(self, regions: Mapping[str, ObjectRegion]) -> None:
        self._regions = regions
        self._told = {name: max(-1, region.version - 1) for name, region in regions.items()}

    def news(self) -> Iterator[Published]:
        """An event for each version since the last call, object by object."""
        for name, region in self._regions.items():
            newest = region.version
            while self._told[name] < newest:
                self._told[name] += 1
                value = self._small_value(region) if self._told[name] == newest else ()
                yield Published(name, self._told[name], value=value)

    def _small_value(self, region: ObjectRegion) -> tuple[float, ...]:
        found = _read(region).value if region.spec.arrays[0].nbytes <= _SMALL else None
        return () if found is None else tuple(found.reshape(-1).astype(float).tolist())

    def newest(self) -> dict[str, Newest]:
        """The newest version of each published object, even while the learner publishes more."""
        there = {name: region for name, region in self._regions.items() if region.version >= 0}
        return {name: _read(region) for name, region in there.items()}

    def values(self) -> dict[str, Any]:
        """The newest values: numbers for scalars, arrays for the others."""
        return {
            name: found.value if found.value.shape else found.value.item()
            for name, found in self.newest().items()
        }

    def __repr__(self) -> str:
        return f"<Objects {self._told}>"


def _read(region: ObjectRegion) -> Newest:
    slot = region.pin(_READER)
    try:
        return Newest(slot.version, slot.arrays[VALUE].copy())
    finally:
        region.unpin(_READER)
