"""What a pool consists of, and how much of it is taken. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that is leased: a device (``cuda:0``, ``cpu:a``) or a CPU slot (``slot:3``)."""

    name: str
    kind: str = "device"
    share: int = 1
    """How many contenders may hold it at once."""
    memory_mb: int = 0
    """What their needs may add up to; 0 if memory is not counted."""
    uuid: str = ""
    """Which GPU it is; "" for others, and where that is not known.

    What ``cuda:0`` means depends on the process (``CUDA_VISIBLE_DEVICES``).
    """

    def agrees(self, other: Resource) -> bool:
        """Whether both are the same one, as far as is known, with the same share and memory."""
        known = self.uuid and other.uuid
        same = self.uuid == other.uuid if known else self.name == other.name
        return same and replace(self, uuid="") == replace(other, uuid="")

    def without(self, memory_mb: int) -> Resource:
        """What is left of it for others next to a holder that has so much of its memory."""
        left = self.memory_mb - memory_mb
        share = 0 if self.memory_mb and left <= 0 else self.share - 1
        return replace(self, share=share, memory_mb=left if share and self.memory_mb else 0)


class Party(NamedTuple):
    """Several seats that get their resources at the same time, all or none."""

    number: int
    """Which party of the pool it is, within 1 and 2**63 - 1: no other one's."""
    seats: int
    """How many they are."""


class Want(NamedTuple):
    """What a contender asks for: any resource (``name`` is empty) or that one, and its memory."""

    name: str = ""
    memory_mb: int = 0
    instead: str = ""
    """Another one that serves as well as the one called ``name``."""
    beside: tuple[Want, ...] = ()
    """What it gets at the same time, or nothing at all. All of it then has names, no two alike."""

    def takes(self, name: str) -> bool:
        """Whether it asks for a resource of that name."""
        return not self.name or name in (self.name, self.instead)

    def could_use(self, resource: Resource) -> bool:
        """Whether it may ever have this resource."""
        return self.takes(resource.name) and self.fits(resource, 0)

    def fits(self, resource: Resource, taken_mb: int) -> bool:
        """Whether the resource has memory for it while others have taken ``taken_mb``."""
        return not resource.memory_mb or taken_mb + self.memory_mb <= resource.memory_mb


Kept = Mapping[str, int]
"""What is kept free: by resource, one unit and so much memory (MB)."""
_NOTHING: Kept = MappingProxyType({})


@dataclass(slots=True)
class _Load:
    resource: Resource
    holders: int = 0
    memory_mb: int = 0


@dataclass(slots=True)
class Places:
    """The resources of one kind and how much of each is taken."""

    _loads: dict[str, _Load] = field(default_factory=dict)
    _open: dict[str, None] = field(default_factory=dict)
    """Resources with room for another holder, an ordered set: longest free first."""

    @classmethod
    def of(cls, resources: Iterable[Resource]) -> Places:
        """All of them free."""
        loads = {each.name: _Load(each) for each in resources}
        return cls(loads, dict.fromkeys(loads))

    def room(self, want: Want, last: str = "", kept: Kept = _NOTHING) -> str | None:
        """A resource with room for ``want``: ``last`` if possible, else the longest free.

        What is ``kept`` for another one counts as taken.
        """
        if want.beside and not all(self.room(each, kept=kept) for each in want.beside):
            return None
        if last in self._open and self._fits(want, last, kept):
            return last
        for name in (want.name, want.instead) if want.name else self._open:
            if name in self._open and self._fits(want, name, kept):
                return name
        return None

    def kept(self, want: Want, last: str = "") -> Kept:
        """What to keep free for ``want`` until it fits: of one resource, or of each of a party's.

        It is always the same one.
        """
        if want.beside:
            return {each.name: each.memory_mb for each in (want, *want.beside)}
        names = [name for name, load in self._loads.items() if want.could_use(load.resource)]
        name = last if last in names else next(iter(names), None)
        return {} if name is None else {name: want.memory_mb}

    def add_holder(self, name: str, memory_mb: int) -> None:
        """One more holder."""
        load = self._loads[name]
        load.holders, load.memory_mb = load.holders + 1, load.memory_mb + memory_mb
        if load.holders >= load.resource.share:
            self._open.pop(name, None)

    def add_memory(self, name: str, memory_mb: int) -> None:
        """So much of its memory is taken by a contender that does not hold it."""
        if load := self._loads.get(name):
            load.memory_mb += memory_mb

    def remove_holder(self, name: str, memory_mb: int) -> None:
        """One holder fewer."""
        load = self._loads[name]
        load.holders, load.memory_mb = load.holders - 1, load.memory_mb - memory_mb
        if load.holders < load.resource.share:
            self._open[name] = None

    def resize(self, name: str, share: int) -> None:
        """So many may hold it at once from now on; it may be a new one."""
        load = self._loads.setdefault(name, _Load(Resource(name)))
        load.resource = replace(load.resource, share=share)
        if load.holders >= share:
            self._open.pop(name, None)
        else:
            self._open.setdefault(name)

    @property
    def full(self) -> bool:
        """Whether nothing has room for another holder."""
        return not self._open

    def is_held_from(self, want: Want) -> bool:
        """Whether it is a party's, and others hold what it lacks; not if that is memory."""
        if not want.beside:
            return False
        return all(
            self.room(each) is not None or not self.has_a_free_unit(each)
            for each in (want._replace(beside=()), *want.beside)
        )

    def has_a_free_unit(self, want: Want) -> bool:
        """Whether ``want`` lacks nothing but memory: a resource has room for another holder."""
        return any(want.takes(name) for name in self._open)

    def _fits(self, want: Want, name: str, kept: Kept) -> bool:
        load = self._loads[name]
        if name in kept and load.holders + 1 >= load.resource.share:
            return False
        taken_mb = load.memory_mb + kept.get(name, 0)
        return want.takes(name) and want.fits(load.resource, taken_mb)
