"""How many slots each run is expected to hold, kept up to date as actors come and go. Pure.

Executors lease the slots of their node from one pool, so what a run really holds changes with what
the others leave; the queue of runs charges what is expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from head.daemon.roster import Node, shares


class HeldSlots:
    """The slots of each run; only nodes that were said to have ``changed`` are looked at again."""

    def __init__(self) -> None:
        self._shares: dict[str, dict[str, int]] = {}  # by node and run
        self._changed: dict[str, None] = {}
        self._held: Counter[str] = Counter()

    def changed(self, node: str) -> None:
        """Other actors live on a node, or it has another number of slots."""
        self._changed[node] = None

    def by_run(
        self, nodes: Sequence[Node], actors_on: Callable[[str], Mapping[str, int]]
    ) -> Mapping[str, int]:
        """The slots of each run; ``actors_on`` has the actors of a node by run."""
        changed, self._changed = self._changed, {}
        slots = {node.name: node.slots for node in nodes if node.name in changed} if changed else {}
        for name in changed:
            self._held.subtract(self._shares.pop(name, {}))
            if (there := actors_on(name)) and name in slots:
                self._shares[name] = shares(slots[name], there)
                self._held.update(self._shares[name])
        if changed:
            self._held = +self._held  # runs that have none are forgotten
        return self._held

    def __repr__(self) -> str:
        return f"<HeldSlots {sum(self._held.values())} by {len(self._held)} runs>"
