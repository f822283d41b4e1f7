"""Where actors live: spread or packed over nodes by slots; one that has a place keeps it. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

POLICIES = ("spread", "pack")


@dataclass(frozen=True, slots=True)
class Room:
    """A node that actors may be placed on. ``taken`` counts actors of other runs there."""

    name: str
    slots: int
    taken: int = 0


def place(
    actors: int, here: Mapping[int, str], rooms: Sequence[Room], policy: str
) -> dict[int, str]:
    """A node for every actor; none for any where there is no room at all.

    ``here`` is where they live: who lives on one of ``rooms`` stays. ``spread`` gives each of the
    others to the node with the fewest actors per slot; ``pack`` fills the slots of one node after
    the other, those that are in use first, and spreads what is left when all are full.
    """
    names = {room.name for room in rooms}
    kept = {a: n for a, n in here.items() if a < actors and n in names}
    homeless = [actor for actor in range(actors) if actor not in kept]
    if not homeless or not rooms:
        return kept
    own = Counter(kept.values())
    load = {room.name: room.taken + own[room.name] for room in rooms}
    packed = _packed(len(homeless), rooms, load) if policy == "pack" else []
    nodes = packed + _spread(len(homeless) - len(packed), rooms, load)
    return dict(sorted((kept | dict(zip(homeless, nodes, strict=True))).items()))


def _packed(count: int, rooms: Sequence[Room], load: dict[str, int]) -> list[str]:
    """Nodes for as many as there are free slots for; ``load`` is kept up to date."""
    chosen: list[str] = []
    for room in sorted(rooms, key=lambda room: load[room.name] == 0):
        fits = min(count - len(chosen), max(0, room.slots - load[room.name]))
        load[room.name] += fits
        chosen += [room.name] * fits
    return chosen


def _spread(count: int, rooms: Sequence[Room], load: Mapping[str, int]) -> list[str]:
    """The least loaded node each time; among equals the first."""
    queue = [((load[r.name] + 1) / r.slots, i, load[r.name]) for i, r in enumerate(rooms)]
    heapq.heapify(queue)
    chosen = []
    for _ in range(count):
        _, i, taken = queue[0]
        chosen.append(rooms[i].name)
        heapq.heapreplace(queue, ((taken + 2) / rooms[i].slots, i, taken + 1))
    return chosen


def shares(slots: int, wishes: Mapping[str, int]) -> dict[str, int]:
    """Slots of a node for each run on it: equal, but none gets more than it has actors there.

    What one does not want goes to the others (max-min fairness), what does not divide to the first.
    There are at least as many slots as runs, so each gets one.
    """
    given = {}
    left, waiting = slots, len(wishes)
    for run in sorted(wishes, key=lambda name: wishes[name]):
        given[run] = min(wishes[run], -(-left // waiting))
        left, waiting = left - given[run], waiting - 1
    return given
