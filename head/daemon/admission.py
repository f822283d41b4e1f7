"""Which runs begin next, under the quotas and the limits of this head. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf

from head.daemon.carriers import Carriers
from head.daemon.nodes import Nodes
from head.daemon.quota_books import QuotaBooks
from head.daemon.run import Run, Sought
from head.daemon.run_queue import QueuedRun, RunQueue
from head.daemon.runs import Runs


class Admission:
    """Takes runs from the queue while the cluster has room and the head may start processes."""

    def __init__(
        self, runs: Runs, nodes: Nodes, queue: RunQueue, books: QuotaBooks, carriers: Carriers,
        at_once: float = inf,
    ) -> None:  # fmt: skip
        self._runs, self._nodes, self._queue, self._books = runs, nodes, queue, books
        self._carriers, self._wait = carriers, dict[Sought, bool]()
        self._at_once = at_once  # at most so many runs have a process

    def take_runs(self) -> Iterator[Run]:
        """The runs that begin now, in order; their state says so."""
        # A run whose process was killed still has its place, and does not wait for another.
        for run in self._runs.in_order(self._runs.again):
            if not self._carriers.why_waits(run):
                yield self._begun(run)
        if self._queue.waits:
            active = len(self._runs.active)
            # Without any worker one run may begin: its faults then show before a worker is there.
            room, more = 1 - active, 0
            if self._nodes.usable:
                # One that waits for a label takes no room from those that need none.
                where = (self._runs.by_name[name].where for name in self._runs.unplaced)
                unplaced = sum(not labels or self._nodes.have_room(labels) for labels in where)
                free, here = self._nodes.free - unplaced, active - len(self._runs.carried)
                room = int(min(free, self._at_once - here))
                more = free - max(0, room)
            for name in self._next_in_queue(room):
                yield self._begun(self._runs.by_name[name])
            # The head's machine is full, but nodes may have room for what they carry.
            while more > 0 and (names := self._next_on_a_node()):
                more -= len(names)
                for name in names:
                    yield self._begun(self._runs.by_name[name])

    def _next_on_a_node(self) -> list[str]:
        """One run that a node may carry, if there is any."""
        found = (self._next_in_queue(0, (sought,)) for sought in self._carriers.with_room())
        return next(filter(None, found), [])

    def _next_in_queue(self, room: int, on_nodes: Collection[Sought] = ()) -> list[str]:
        if self._runs.labelled:
            self._queue.hold_back(self._runs.labelled, self._is_held_back)
        self._hold_back_seekers()
        if not self._books:
            return self._queue.next(room, on_nodes)
        names: list[str] = []
        while True:  # one by one, as each may take the last of a quota from the next
            self._queue.hold_back(self._books.take_doubtful(), self._is_held_back)
            begins = self._queue.next(min(1, room - len(names)), () if names else on_nodes)
            if not begins:
                return names
            names += begins
            self._books.admit(self._runs.by_name[begins[0]])

    def _hold_back_seekers(self) -> None:
        """Hold back runs whose device may be about to come; all that want the same wait alike."""
        for sought, names in self._runs.seekers.items():
            wait = bool(self._carriers.why_wait(sought))
            doubtful = names if wait != self._wait.get(sought) else names & self._runs.new_seekers
            self._wait[sought] = wait
            self._queue.hold_back(doubtful, self._is_held_back)
        self._runs.new_seekers.clear()

    def _is_held_back(self, queued: QueuedRun) -> bool:
        run = self._runs.by_name[queued.name]
        if run.where and not self._nodes.have_room(run.where):
            return True
        if self._carriers.why_waits(run):
            return True
        return bool(self._books) and bool(self._books.why_not_begun(run))

    def _begun(self, run: Run) -> Run:
        run.begin(self._carriers.choose(run))
        self._runs.changed(run)
        return run

    def __repr__(self) -> str:
        return f"<Admission at_once={self._at_once}>"
