"""The nodes among which the places of a run's actors are chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf

from head.daemon.executors import Executors
from head.daemon.nodes import Nodes
from head.daemon.quota_books import QuotaBooks
from head.daemon.roster import Node, Room
from head.daemon.run import Run


class Rooms:
    """The nodes that a run is on, and others with a slot for it where its executors do not fail.

    Those that lack a label that it asks for, or shared memory for an actor, are left out.

    Under a quota there are at most as many as the run may have slots: the emptiest of them.
    """

    def __init__(
        self, nodes: Nodes, executors: Executors, books: QuotaBooks, runs: Mapping[str, Run]
    ) -> None:
        self._nodes, self._executors, self._books, self._runs = nodes, executors, books, runs

    def of(self, run: Run, actors: int) -> list[Room]:
        """What ``place`` must know of these nodes, for so many actors."""
        keeps = {
            node.name
            for node in self._nodes.in_order({*run.places.values()})
            if node.usable and not self._unfit(run, node.name)
        }
        full = partial(self._full, run)
        there = self._nodes.with_room + len(keeps)
        more = self._books.more_nodes(run, keeps, there) if self._books else there
        if more < self._nodes.with_room:
            names = self._nodes.emptiest(more, lambda node: node in keeps or full(node))
        else:
            names = self._nodes.candidates(actors + len(keeps), run.placement, full)
        return self._nodes.rooms({*keeps, *names}, run.name, partial(self._fits, run))

    def lack_memory(self, run: Run) -> bool:
        """Whether a node has a slot for another actor of the run, but none has the memory."""

        def some(unfit: Callable[[Run, str], bool]) -> bool:
            return bool(self._nodes.candidates(1, run.placement, partial(unfit, run)))

        return some(self._unfit) and not some(self._full)

    def _unfit(self, run: Run, name: str) -> bool:
        node = self._nodes.get(name)
        given_up = self._executors.why_given_up(run.name, name)
        return node is None or bool(given_up) or not node.has(run.where)

    def _full(self, run: Run, name: str) -> bool:
        node, there = self._nodes.get(name), self._nodes.actors_on(name).get(run.name, 0)
        return node is None or self._unfit(run, name) or self._fits(run, node) <= there

    def _fits(self, run: Run, node: Node) -> float:
        """How many of its actors the node has memory for, beside those of other runs there."""
        if not node.shm_bytes or run.up is None or not run.up.actor_bytes:
            return inf
        others = sum(
            self._runs[name].bytes_on_a_node(actors)
            for name, actors in self._nodes.actors_on(node.name).items()
            if name != run.name
        )
        left = node.shm_bytes - others - run.up.executor_bytes
        return max(0, left // run.up.actor_bytes)

    def __repr__(self) -> str:
        return f"<Rooms {self._nodes!r}>"
