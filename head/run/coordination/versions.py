"""What learners have published: versions of weights and objects, and what triggers know of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion
from artos.specs.keys import VALUE
from artos.specs.members import Member
from head.run.coordination.books import Invocations
from head.run.coordination.outline import Outline
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

    A resumed run announces the versions it continues from ``again``, not all that led to them.
    ``front`` begins the names that others know them by.
    """

    def __init__(self, regions: Mapping[str, ObjectRegion], front: str = "") -> None:
        self._regions, self._front = regions, front
        self._told = {name: max(-1, region.version - 1) for name, region in regions.items()}
        self._known = {name: region.version for name, region in regions.items()}

    def resumed(self, untold: Container[str]) -> None:
        """Triggers knew all versions that the run goes on from but those of the ``untold``."""
        for name in (each for each in self._known if f"{self._front}{each}" in untold):
            self._known[name] -= 1

    def untold(self, found: Mapping[str, Newest]) -> list[str]:
        """Of which of these triggers do not know yet."""
        told = {f"{self._front}{name}": version for name, version in self._told.items()}
        return [name for name, newest in found.items() if newest.version > told[name]]

    def news(self) -> Iterator[Published]:
        """An event for each version since the last call, object by object."""
        for name, region in self._regions.items():
            newest = region.version
            while self._told[name] < newest:
                self._told[name] += 1
                told = self._told[name]
                value = self._small_value(region) if told == newest else ()
                again = told <= self._known[name]
                yield Published(f"{self._front}{name}", told, value=value, again=again)

    def _small_value(self, region: ObjectRegion) -> tuple[float, ...]:
        found = _read(region).value if region.spec.arrays[0].nbytes <= _SMALL else None
        return () if found is None else tuple(found.reshape(-1).astype(float).tolist())

    def newest(self) -> dict[str, Newest]:
        """The newest version of each published object, even while the learner publishes more."""
        there = {name: region for name, region in self._regions.items() if region.version >= 0}
        return {f"{self._front}{name}": _read(region) for name, region in there.items()}

    def values(self) -> dict[str, Any]:
        """The newest values: numbers for scalars, arrays for the others."""
        return {
            name: found.value if found.value.shape else found.value.item()
            for name, found in self.newest().items()
        }

    def __repr__(self) -> str:
        return f"<Objects {self._told}>"


class Versions:
    """Follows the versions of a learner and of its objects; ``front`` begins their names."""

    def __init__(
        self,
        member: Member,
        model: ObjectRegion,
        objects: Mapping[str, ObjectRegion],
        outline: Outline,
        invocations: Invocations,
        front: str = "",
    ) -> None:
        self.member, self.model, self.key = member, model, f"{front}{model.spec.name}"
        self.objects = Objects(objects, front)
        self._outline, self._invocations = outline, invocations
        self.began, self._known = max(0, model.version), model.version
        self.told = -1
        """The newest version that triggers know of."""
        self.updates = 0
        """Updates made, those of earlier parts of the run included."""
        self._before: tuple[Versions, ...] = ()
        self._after: Versions | None = None

    def awaits(self, others: Iterable[Versions]) -> None:
        """Nothing is told of this one before there is a version of each of these, too."""
        self._before = tuple(others)
        for each in self._before:
            each._after = self

    def resumed(self, untold: Container[str]) -> None:
        """Triggers knew all versions that the run goes on from but those of the ``untold``."""
        self._known -= self.key in untold
        self.objects.resumed(untold)

    def untold(self, version: int, objects: Mapping[str, Newest]) -> list[str]:
        """Of what triggers do not know yet, if this is its version, and these are its objects."""
        return [*([self.key] if version > self.told else ()), *self.objects.untold(objects)]

    def begin(self) -> None:
        """Announce the version that a resumed run continues from, not all that led to it."""
        self.told = max(-1, self.model.version - 1)

    def news(self) -> Iterator[Published]:
        """An event for each version since the last call, its objects' before its weights'."""
        if self._before:
            if any(each.model.version < 0 for each in self._before):
                return
            self._before = ()
        # Read before the objects, as those of an update are published before its weights.
        newest, firing = self.model.made_by()
        yield from self.objects.news()
        while self.told < newest:
            self.told += 1
            later = self._invocations.after(self.member, firing, self._outline.non_publishing)
            ahead = later + newest - self.told
            updates, again = self.updates_through(firing), self.told <= self._known
            yield Published(self.key, self.told, ahead, updates, again=again)
        if self._after is not None and self.told >= 0:
            waited, self._after = self._after, None
            yield from waited.news()

    def begun(self, *, certain: bool = False) -> int:
        """Updates that were handed to the learner, made or not; or those ``certain`` to be made."""
        prepare = self._outline.non_publishing
        calls = (c for c in self._invocations.of(self.member) if c.trigger not in prepare)
        return self.updates + sum(bool(c.claims) or not certain for c in calls)

    def updates_through(self, firing: int) -> int:
        """Updates up to the one of this firing, whether or not the learner has reported it."""
        calls = self._invocations.through(self.member, firing)
        return self.updates + sum(c.trigger not in self._outline.non_publishing for c in calls)

    def has_booked(self, firing: int) -> bool:
        """Whether the update of this firing is booked."""
        return not self._invocations.through(self.member, firing)

    def __repr__(self) -> str:
        return f"<Versions of {self.member}, told of {self.told}>"


def _read(region: ObjectRegion) -> Newest:
    slot = region.pin(_READER)
    try:
        return Newest(slot.version, slot.arrays[VALUE].copy())
    finally:
        region.unpin(_READER)
