"""The nodes that are there, the actors on each, and which of them have room. Pure.

A question about room is answered with the few nodes that matter, so a decision costs O(log n) in
the number of nodes for each actor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from head.daemon.ranking import Ranking
from head.daemon.roster import Node, Room


@dataclass(slots=True)
class _Entry:
    """A node, and what of it is in the totals."""

    node: Node
    number: int
    free: int = 0
    """How many more runs fit."""
    slots: int = 0
    """Usable slots."""


@dataclass(slots=True)
class Orders:
    """Nodes with room for one more run, in the orders in which they are chosen.

    Among equals, the node that came first is first.
    """

    spread: Ranking = field(default_factory=Ranking)
    """The fewest actors per slot first."""
    pack: Ranking = field(default_factory=Ranking)
    """Nodes in use first, and only those with a free slot."""
    empty: Ranking = field(default_factory=Ranking)
    """The most free slots first."""

    def put(self, name: str, number: int, slots: int, load: int) -> None:
        """Rank a node that has room; ``load`` actors live on it."""
        self.spread.put(name, ((load + 1) / slots, number))
        self.empty.put(name, (load - slots, number))
        if load < slots:
            self.pack.put(name, (load == 0, number))
        else:
            self.pack.drop(name)

    def drop(self, name: str) -> None:
        """Leave out a node that has no room."""
        for ranking in (self.spread, self.pack, self.empty):
            ranking.drop(name)


class Nodes:
    """Nodes that are alive, in the order in which they came.

    There are ``usable`` nodes that actors may be placed on; these have ``slots`` slots in all, and
    ``free`` more runs fit on them.
    """

    def __init__(self) -> None:
        self.free = self.slots = self.usable = 0
        self._entries: dict[str, _Entry] = {}
        self._actors: dict[str, dict[str, int]] = {}  # by node and run
        self._orders = Orders()
        self._room: dict[tuple[str, ...], int] = {}  # by labels, until a node changes
        self._with_devices: set[str] = set()
        self.device_changes = 0  # of nodes with devices
        self._crowded = Ranking()  # nodes with more actors than slots, the most crowded first
        self._count = 0

    def __repr__(self) -> str:
        return f"<Nodes {len(self._entries)} usable={self.usable} free={self.free}>"

    def get(self, name: str) -> Node | None:
        """The node of that name, if it is alive."""
        entry = self._entries.get(name)
        return entry.node if entry else None

    def in_order(self, names: Iterable[str]) -> list[Node]:
        """The living nodes among ``names``."""
        found = [entry for name in names if (entry := self._entries.get(name))]
        return [entry.node for entry in sorted(found, key=lambda entry: entry.number)]

    @property
    def with_devices(self) -> list[Node]:
        """The living nodes that learners may lease devices of, in the order in which they came."""
        return self.in_order(self._with_devices)

    def actors_on(self, node: str) -> dict[str, int]:
        """How many actors of each run live on a node."""
        return self._actors.get(node, {})

    def slots_of(self, name: str) -> int:
        """The slots of a node, 0 if it is not there."""
        entry = self._entries.get(name)
        return entry.node.slots if entry else 0

    # -- events --------------------------------------------------------------------------------

    def put(self, node: Node) -> None:
        """Add a node that is there (again)."""
        self.drop(node.name)
        self._count += 1
        self._entries[node.name] = _Entry(node, self._count)
        if node.devices:
            self._with_devices.add(node.name)
        self.changed(node.name)

    def drop(self, name: str) -> None:
        """Remove a node, if it is there."""
        if entry := self._entries.pop(name, None):
            self._book(entry, 0, 0)
            self.device_changes += name in self._with_devices
            self._with_devices.discard(name)
            self._orders.drop(name)
            self._crowded.drop(name)

    def settle(self, run: str, places: Mapping[int, str], before: Collection[str]) -> set[str]:
        """Record where a run's actors live now; returns the nodes that this may change."""
        counts = Counter(places.values())
        for node in before:
            self._actors.get(node, {}).pop(run, None)
        for node, count in counts.items():
            self._actors.setdefault(node, {})[run] = count
        touched = {*before, *counts}
        for node in touched:
            if not self.actors_on(node):
                self._actors.pop(node, None)
            self.changed(node)
        return touched

    def changed(self, name: str) -> None:
        """Count a node again: it has other actors, or may be used no longer."""
        if (entry := self._entries.get(name)) is None:
            return
        self.device_changes += name in self._with_devices
        node, there = entry.node, self.actors_on(name)
        slots, runs = (node.slots, node.most_runs) if node.usable else (0, 0)
        self._book(entry, max(0, runs - len(there)), slots)
        load = sum(there.values())
        if entry.free:
            self._orders.put(name, entry.number, slots, load)
        else:
            self._orders.drop(name)
        if load > slots > 0:
            self._crowded.put(name, (-load / slots, entry.number))
        else:
            self._crowded.drop(name)

    def _book(self, entry: _Entry, free: int, slots: int) -> None:
        self._room.clear()
        self.free += free - entry.free
        self.slots += slots - entry.slots
        self.usable += (slots > 0) - (entry.slots > 0)
        entry.free, entry.slots = free, slots

    # -- room ----------------------------------------------------------------------------------

    @property
    def with_room(self) -> int:
        """How many nodes have room for one more run."""
        return len(self._orders.spread)

    def have(self, labels: tuple[str, ...]) -> bool:
        """Whether there is a usable node with all these labels."""
        return self._best(labels) >= 0

    def have_room(self, labels: tuple[str, ...]) -> bool:
        """Whether one more run fits on a usable node with all these labels."""
        return self._best(labels) > 0

    def _best(self, labels: tuple[str, ...]) -> int:
        """The most runs that fit on a node with these labels, -1 without such a node."""
        if labels not in self._room:
            fit = (e for e in self._entries.values() if e.node.has(labels))
            self._room[labels] = max((e.free if e.slots else -1 for e in fit), default=-1)
        return self._room[labels]

    def candidates(self, actors: int, policy: str, but: Callable[[str], object]) -> list[str]:
        """Nodes with room; they include all that ``place`` would choose for so many actors."""
        found = self._orders.spread.lowest(actors, but)
        return found + self._orders.pack.lowest(actors, but) if policy == "pack" else found

    def emptiest(self, count: int, but: Callable[[str], object]) -> list[str]:
        """The nodes with room that have the most free slots."""
        return self._orders.empty.lowest(count, but)

    def crowded(self, most: int) -> list[str]:
        """The nodes with the most actors per slot, among those with more actors than slots."""
        return self._crowded.lowest(most, lambda node: False)

    def rooms(
        self, names: Iterable[str], run: str, fits: Callable[[Node], float] = lambda node: inf
    ) -> list[Room]:
        """What ``place`` must know of these nodes, each of which ``fits`` so many actors."""
        rooms = []
        for node in self.in_order({*names}):
            there = self.actors_on(node.name)
            taken = sum(there.values()) - there.get(run, 0)
            rooms.append(Room(node.name, node.slots, taken, fits(node)))
        return rooms
