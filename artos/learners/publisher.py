"""Publishes what a learner makes: the weights, and objects beside them with their own versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.errors import BadObject
from artos.specs.contracts import Learner
from artos.specs.keys import READS, VALUE, ObjectKey

UNSAID = "actors read it with the first version of the weights: publish a first value in setup"


def published(learner: Learner) -> tuple[ObjectKey, ...]:
    """The objects that a learner declares beside the weights."""
    found = learner.objects
    return (found,) if isinstance(found, ObjectKey) else tuple(found)


def _own(name: str) -> str:
    """The object whose value is an array of a version, which actors may name with its role."""
    return name.removeprefix(READS).rpartition("/")[2]


class Taping(Protocol):
    """Records versions; see ``artos.runtime.taping``."""

    def publishes(self, weights: ObjectRegion) -> None:
        """A version is about to be made."""

    def published(self, weights: ObjectRegion) -> None:
        """It is there."""


class Publisher:
    """Call it with a name and a value to make the value the newest version of that object.

    What an invocation makes is seen together with its weights, and just before them, or else when
    it ends: one that is killed before that left nothing, and is repeated. Only of several values of
    one object each but the last is seen at once.

    At registration there are no ``regions``: values are only checked. So they are where it is
    ``silent``, as another replica publishes.
    """

    def __init__(
        self,
        keys: Iterable[ObjectKey] = (),
        regions: Mapping[str, ObjectRegion] = MappingProxyType({}),
        weights: ObjectRegion | None = None,
        *,
        silent: bool = False,
    ) -> None:
        self._keys = {key.name: key for key in keys}
        self._regions = regions
        self._weights, self._silent = weights, silent
        self._holds, self._held = False, dict[str, ObjectSlot]()
        self.tape: Taping | None = None
        """Is told of versions of the weights before and after they are made."""
        self.made: set[str] = set()
        """Names of the objects of which there was a value."""
        self.told: Callable[[int], None] = lambda _: None
        """Is told the number of each version of the weights, once it is there."""

    def __call__(self, name: str, value: ArrayLike) -> None:
        """Publish ``value``, of the shape that was declared.

        Raises:
            BadObject: the object is not declared, or has another shape.
            NotFinite: ``value`` holds NaN or infinity.
        """
        if (key := self._keys.get(name)) is None:
            known = ", ".join(self._keys) or "none"
            raise BadObject(
                name, f"it is not among the learner's objects ({known}): add ObjectKey({name!r})"
            )
        array = np.asarray(value, key.dtype)
        if array.shape != key.shape:
            raise BadObject(name, f"its shape is {array.shape}, but {key.shape} is declared")
        self.made.add(name)
        if (region := self._regions.get(name)) is not None and not self._silent:
            if name in self._held:
                region.commit(self._held.pop(name), region.version + 1)
            self._held[name] = region.write({VALUE: array})
            if not self._holds:
                self._show()

    def begin(self) -> None:
        """An invocation begins: from now on values are held back."""
        self._holds = True

    def end(self) -> None:
        """It is done: what it published is seen."""
        self._holds = False
        self._show()

    def _show(self) -> None:
        for name, slot in self._held.items():
            region = self._regions[name]
            region.commit(slot, region.version + 1)
        self._held.clear()

    def weights(self, live: Mapping[str, Any], firing: int = 0) -> None:
        """Make a version, in which the newest values of objects that actors read are copied.

        Without a ``firing`` it is one in the midst of an invocation, all of which a crash repeats.

        Raises:
            BadObject: there is no value yet of an object that actors read.
            NotFinite: a weight is NaN or infinite; nothing was published.
        """
        if self._weights is None or self._silent:
            return
        read = [a.name for a in self._weights.spec.arrays if a.name.startswith(READS)]
        values = {name: self.newest(_own(name)) for name in read}
        for name, value in values.items():
            if value is None:
                raise BadObject(_own(name), UNSAID)
        if self.tape is not None:
            self.tape.publishes(self._weights)
        slot = self._weights.write({**live, **values})
        self._show()
        self._weights.commit(slot, self._weights.version + 1, firing)
        if self.tape is not None:
            self.tape.published(self._weights)
        self.told(self._weights.version)

    def newest(self, name: str) -> NDArray[Any] | None:
        """A copy of the last value, even from a learner that died or a saved run; None if none."""
        if (held := self._held.get(name)) is not None:
            return held.arrays[VALUE].copy()
        region = self._regions.get(name)
        if region is None or region.version < 0:
            return None
        return region.newest.arrays[VALUE].copy()

    def __repr__(self) -> str:
        return f"<Publisher of {', '.join(self._keys)}>"
