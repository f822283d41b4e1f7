"""What runs wait for, as users read it. Pure."""

from __future__ import annotations

import math

from artos.protocol.run_state import QUEUED, STARTING
from head.daemon.carriers import Carriers
from head.daemon.executors import Executors
from head.daemon.nodes import Nodes
from head.daemon.quota_books import QuotaBooks
from head.daemon.rooms import Rooms
from head.daemon.run import Run
from head.daemon.run_queue import RunQueue
from head.daemon.runs import Runs

_NO_WORKER = "a worker: none is there; start one with `artos worker --head ...`"


class Waits:
    """Says what a run waits for.

    At most ``at_once`` runs may have a process. Queued runs wait for ``hold``, unless that is "".
    """

    def __init__(
        self, runs: Runs, nodes: Nodes, queue: RunQueue, books: QuotaBooks, executors: Executors,
        rooms: Rooms, carriers: Carriers, at_once: float,
    ) -> None:  # fmt: skip
        self._runs, self._nodes, self._queue = runs, nodes, queue
        self._books, self._executors, self._rooms = books, executors, rooms
        self._carriers = carriers
        self._at_once, self.hold = at_once, ""

    def of(self, run: Run) -> str:
        """What a run waits for; "" if it waits for nothing."""
        if run.up is not None and len(run.places) < run.up.actors:
            given_up = self._executors.given_up(run.name)
            failed = [given_up[node.name] for node in self._nodes.in_order(given_up) if node.usable]
            if failed:
                return f"a worker that can run it: {'; '.join(failed)}"
            labels = f" and {_labels(run)}" if run.where else ""
            if self.for_memory(run):
                mb = math.ceil(run.bytes_on_a_node(1) / 2**20)
                return f"a worker with {mb} MiB of shared memory left for an actor{labels}"
            return f"a worker with a free slot{labels}" if self._nodes.usable else _NO_WORKER
        if run.state == QUEUED:
            why = self.hold or self._carriers.why_waits(run)
            return why or run.waits_for or self._to_begin(run)
        if run.state == STARTING and not run.waits_for:
            usable = self._nodes.usable
            return "its registration" if usable else f"its registration, then {_NO_WORKER}"
        return run.waits_for

    def for_memory(self, run: Run) -> int:
        """How many actors of a run wait for a node's shared memory alone."""
        waiting = run.up.actors - len(run.places) if run.up else 0
        return waiting if waiting > 0 and self._rooms.lack_memory(run) else 0

    def _to_begin(self, run: Run) -> str:
        active, slots = len(self._runs.active), self._nodes.slots
        if not self._nodes.usable:
            return _NO_WORKER
        if run.where and not self._nodes.have_room(run.where):
            free = "a free slot and " if self._nodes.have(run.where) else ""
            return f"a worker with {free}{_labels(run)}"
        if active - len(self._runs.carried) >= self._at_once:
            node = f", or a worker that carries it ({run.sought.device})" if run.sought else ""
            return f"the head, which carries {self._at_once} runs at once (--runs-at-once){node}"
        if why := self._books.why_not_begun(run):
            return why
        before = self._queue.words(run)
        return f"a slot: {active} runs share {slots}{before and '; before it: '}{before}"


def _labels(run: Run) -> str:
    return f"the label{'s' * (len(run.where) > 1)} {', '.join(run.where)}"
