"""The nodes among which the places of a run's actors are chosen. Pure."""

from __future__ import annotations

from head.daemon.executors import Executors
from head.daemon.nodes import Nodes
from head.daemon.quota_books import QuotaBooks
from head.daemon.roster import Room
from head.daemon.run import Run


class Rooms:
    """The nodes that a run is on, and others with a slot for it where its executors do not fail.

    Those that lack a label that it asks for are left out.

    Under a quota there are at most as many as the run may have slots: the emptiest of them.
    """

    def __init__(self, nodes: Nodes, executors: Executors, books: QuotaBooks) -> None:
        self._nodes, self._executors, self._books = nodes, executors, books

    def of(self, run: Run, actors: int) -> list[Room]:
        """What ``place`` must know of these nodes, for so many actors."""

        def unfit(name: str) -> bool:
            if self._executors.why_given_up(run.name, name):
                return True
            node = self._nodes.get(name)
            return node is None or not {*run.where} <= {*node.labels}

        keeps = {
            node.name
            for node in self._nodes.in_order({*run.places.values()})
            if node.usable and not unfit(node.name)
        }
        there = self._nodes.with_room + len(keeps)
        more = self._books.more_nodes(run, keeps, there) if self._books else there
        if more < self._nodes.with_room:
            names = self._nodes.emptiest(more, lambda node: node in keeps or unfit(node))
        else:
            names = self._nodes.candidates(actors + len(keeps), run.placement, unfit)
        return self._nodes.rooms({*keeps, *names}, run.name)
