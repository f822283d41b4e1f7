"""How many slots each run is expected to hold, kept up to date as actors come and go. Pure.

Executors lease the slots of their node from one pool, so what a run really holds depends on what
the others leave; the queue of runs charges what is expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from head.daemon.roster import shares


class HeldSlots:
    """The expected slots of each run; only nodes that have ``changed`` are looked at again."""

    def __init__(self) -> None:
        self._shares: dict[str, dict[str, int]] = {}  # by node and run
        self._changed: dict[str, None] = {}
        self._held: Counter[str] = Counter()

    def changed(self, node: str) -> None:
        """Look at a node again: other actors live on it, or it has another number of slots."""
        self._changed[node] = None

    def take(
        self,
        slots_of: Callable[[str], int],
        actors_on: Callable[[str], Mapping[str, int]],
        weight: Callable[[str], float],
    ) -> dict[str, int]:
        """The slots of each run whose slots may have changed since the last call.

        ``actors_on`` returns the actors on a node by run, ``slots_of`` a node's slots.
        """
        changed, self._changed = self._changed, {}
        runs: set[str] = set()
        for node in changed:
            self._held.subtract(before := self._shares.pop(node, {}))
            runs |= before.keys()
            if (there := actors_on(node)) and (slots := slots_of(node)):
                weights = {run: weight(run) for run in there}
                self._held.update(now := shares(slots, there, weights))
                self._shares[node] = now
                runs |= now.keys()
        found = {run: self._held[run] for run in runs}
        for run in [run for run, slots in found.items() if not slots]:
            del self._held[run]
        return found

    def __repr__(self) -> str:
        return f"<HeldSlots {sum(self._held.values())} by {len(self._held)} runs>"
