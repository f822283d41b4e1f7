"""Orders to worker nodes: which executors they open and close, and when they may leave. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from artos.protocol.control import Assign, Leave
from head.daemon.effects import Order
from head.daemon.executors import Executors
from head.daemon.nodes import Nodes
from head.daemon.quota_books import QuotaBooks
from head.daemon.roster import Node
from head.daemon.runs import Runs

_MOVE_SECONDS = 60.0
"""How long actors that move to other nodes may take to end their rounds."""


class NodeOrders:
    """Compares the executors a node should have with those ordered, once that may have changed."""

    def __init__(self, runs: Runs, nodes: Nodes, executors: Executors, books: QuotaBooks) -> None:
        self._runs, self._nodes = runs, nodes
        self._executors, self._books = executors, books
        self._doubtful: set[str] = set()  # nodes whose executors may be others than ordered

    def recheck(self, nodes: Iterable[str]) -> None:
        """Compare these nodes at the next ``take_orders``."""
        self._doubtful.update(nodes)

    def take_orders(self, now: float) -> list[Order]:
        """The orders to all nodes that were to be compared, in the order the nodes came."""
        names, self._doubtful = self._doubtful, set()
        orders: list[Order] = []
        for node in self._nodes.in_order(names):
            if node.peer:
                orders += self._for_executors(node, now)
                if self._executors.closing(node.name):
                    self._doubtful.add(node.name)
                carriers = {self._runs.by_name[name].carrier for name in self._runs.carried}
                busy = node.name in carriers
                if node.leaves and not busy and self._executors.dismiss(node.name):
                    orders.append(Order(node, Leave(node.leaves)))
        return orders

    def _for_executors(self, node: Node, now: float) -> list[Order]:
        def grace(name: str) -> float:
            run = self._runs.by_name.get(name)
            return _MOVE_SECONDS if run is not None and run.up else 0.0

        wanted = {}
        for name in self._nodes.actors_on(node.name):
            run, slots = self._runs.by_name[name], self._books.slots(name, node.name, node.slots)
            if (up := run.up) is not None:
                wanted[name] = Assign(
                    name, run.epoch, up.plan, up.folder, run.archive, up.steering, up.experience,
                    slots, run.account, run.keys and run.keys.of_executor,
                )  # fmt: skip
        orders = self._executors.orders(node.name, wanted, now, grace)
        return [Order(node, message) for message in orders]

    def __repr__(self) -> str:
        return f"<NodeOrders doubtful={sorted(self._doubtful)}>"
