"""How many workers a cluster should have now, and which come and go for it. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from artos.protocol.views import ClusterView, NodeView
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.demand import more_for_memory, nodes_for, slots_wanted
from deploy.launchers.launcher import Unit

PATIENCE = 60.0
"""Seconds for which a worker is kept that no run has a use for: runs often follow each other."""
_HASTY = 30.0
"""Seconds within which a unit that ends counts as one that cannot live."""
MOST_IN_A_ROW = 3


@dataclass(frozen=True)
class Step:
    """What is to be done now."""

    start: tuple[int, ...] = ()
    stop: tuple[Unit, ...] = ()
    """A worker that runs drains then; one that waits has nothing that needs to move."""
    unable: tuple[int, ...] = ()
    """Workers that are left alone from now on: they ended ``MOST_IN_A_ROW`` times as soon as they
    had begun."""


@dataclass
class Scaling:
    """What must be remembered from one look at a cluster to the next."""

    cluster: Cluster
    in_order: bool = False
    """Whether the worker with the highest index must be the first to go (``Launcher``)."""
    _idle_since: float | None = None
    _started: set[int] = field(default_factory=set)
    """Units that may still turn out to be unable to live."""
    _ran_from: dict[int, float] = field(default_factory=dict)
    _joined: set[int] = field(default_factory=set)
    """Those of them that the head has heard."""
    _hasty: dict[int, int] = field(default_factory=dict)
    _leaves: dict[int, str] = field(default_factory=dict)
    """The id of the unit of each node that leaves."""
    _stopped: set[str] = field(default_factory=set)
    """Ids of units that were told to end: each is told once."""
    _for_memory: tuple[int, int] = (0, 0)
    """How many workers memory asked for, and how many slots runs wanted then."""

    def step(
        self, view: ClusterView, units: Sequence[Unit], notices: Mapping[int, float], now: float
    ) -> Step:
        """What is to be done, given the head's view, the engine's, and its notices."""
        cluster = self.cluster
        workers = {unit.index: unit for unit in units if unit.index != HEAD}
        nodes = {
            index: node
            for node in view.nodes
            if node.alive and (index := cluster.index(node.name)) is not None
        }
        told = {cluster.index(node.name) for node in view.nodes if node.leaves}
        unable = self._see_ends(workers, {*nodes}, told, now)
        self._stopped &= {unit.id for unit in workers.values()}
        # One that was started again under its index is not the one that left.
        self._leaves = {i: u for i, u in self._leaves.items() if i in nodes and nodes[i].leaves}
        leaving = {
            index
            for index, node in nodes.items()
            if node.leaves
            and index in workers
            and self._leaves.setdefault(index, workers[index].id) == workers[index].id
        }
        taken = [index for index in notices if index in workers and index not in leaving]
        there = {
            index
            for index, unit in workers.items()
            if unit.state in ("waits", "runs")
            and unit.id not in self._stopped
            and index not in leaving
            and index not in taken
        }
        wanted = self._wanted(view, [node for node in nodes.values() if not node.leaves])
        if len(there) <= wanted:
            self._idle_since = None
            most = len(cluster.hosts) or 2 * cluster.most  # an index may turn out not to live
            # The node of a unit that the engine took away may still be leaving, under its name.
            named = {index for index, node in nodes.items() if not node.awaited}
            named = {*workers} if self.in_order else {*workers, *named}
            free = [index for index in range(most) if index not in named]
            able = [index for index in free if self._hasty.get(index, 0) < MOST_IN_A_ROW]
            start = tuple(able[: wanted - len(there)])
            if not self.in_order:
                self._started.update(start)
            return Step(start, self._told([workers[index] for index in taken]), unable)
        self._idle_since = now if self._idle_since is None else self._idle_since
        may_go = [
            index
            for index in there
            if workers[index].state == "waits" or now - self._idle_since >= PATIENCE
        ]
        may_go.sort(key=lambda index: self._worth(workers[index], nodes.get(index)))
        spare = may_go[: len(there) - wanted]
        if self.in_order:  # a worker stays as long as one with a higher index does
            spare = [index for index in spare if all(o in spare for o in there if o > index)]
        return Step((), self._told([workers[i] for i in (*taken, *spare)]), unable)

    def settled(self, step: Step, view: ClusterView, units: Sequence[Unit]) -> bool:
        """Whether all is as it should be, as the engine and the head have it alike."""
        heard = {node.name for node in view.nodes if node.alive and not node.leaves}
        workers = [unit for unit in units if unit.index != HEAD]
        return (
            step == Step()
            and not self._started
            and self._idle_since is None
            and all(u.state == "runs" and self.cluster.node(u.index) in heard for u in workers)
        )

    def undo(self, start: Sequence[int], stop: Sequence[Unit]) -> None:
        """The engine did not start or stop these: they are to be asked for again."""
        self._started.difference_update(start)
        self._stopped.difference_update(unit.id for unit in stop)

    def _worth(self, unit: Unit, node: NodeView | None) -> tuple[int, ...]:
        """The lower, the sooner a unit goes: one that waits, then one with few actors."""
        if self.in_order:
            return (-unit.index,)
        return (unit.state != "waits", node.actors if node else 0, -unit.index)

    def _wanted(self, view: ClusterView, nodes: Sequence[NodeView]) -> int:
        """Workers for all actors of living and waiting runs, a slot each; within the bounds.

        More, if actors wait for memory that these have not: as long as runs want as many slots, for
        with fewer workers the same actors would wait again.
        """
        wants = slots_wanted(view, self.cluster.labels)
        wanted = nodes_for(wants, nodes, self.cluster.slots)
        held = sum(run.registered or run.wants for run in view.runs)
        if more := more_for_memory(view, nodes):
            self._for_memory = (len(nodes) + more, held)
        elif held < self._for_memory[1]:
            self._for_memory = (0, 0)
        least = max(self.cluster.least, self._for_memory[0])
        return min(self.cluster.most, max(least, wanted))

    def _told(self, units: Sequence[Unit]) -> tuple[Unit, ...]:
        fresh = tuple(unit for unit in units if unit.id not in self._stopped)
        self._stopped |= {unit.id for unit in fresh}
        self._started.difference_update(unit.index for unit in fresh)
        return fresh

    def _see_ends(
        self, workers: Mapping[int, Unit], heard: set[int], told: Container[int | None], now: float
    ) -> tuple[int, ...]:
        """Count units that ended as soon as they had begun; the third time they are left alone.

        One that had joined and was ``told`` to leave can live: its engine took it away. An engine
        that ends workers in order starts such a unit again by itself.
        """
        unable: list[int] = []
        for index in () if self.in_order else sorted(self._started):
            if index in workers:
                if workers[index].state == "waits":
                    continue
                self._joined |= {index} & heard
                if now - self._ran_from.setdefault(index, now) > _HASTY:
                    self._hasty.pop(index, None)
                    self._forget(index)
                continue
            left = index in self._joined and index in told
            self._forget(index)
            self._hasty[index] = 0 if left else self._hasty.get(index, 0) + 1
            if self._hasty[index] == MOST_IN_A_ROW:
                unable.append(index)
        return tuple(unable)

    def _forget(self, index: int) -> None:
        self._started.discard(index)
        self._joined.discard(index)
        self._ran_from.pop(index, None)
