"""The executors ordered on each node, and those that ended by themselves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf

from artos.protocol.control import Assign, ExecutorEnded, Unassign
from artos.protocol.message import Message

MOST_IN_A_ROW = 3
"""After so many executors of a run have ended by themselves on a node, no more are opened there."""
_LONG_LIVED = 60.0
"""Seconds; the end of an executor that lived longer counts as the first in a row."""
_MISSED = 2_400.0
"""Seconds without its run's hearing of it after which an executor has failed.

It may fetch code, and wait half an hour for packages to be installed.
"""


@dataclass(slots=True)
class _Ordered:
    """An executor as it was last ordered."""

    epoch: int
    since: float
    assign: Assign | None = None
    """None: an earlier head ordered it."""
    closed: bool = False
    """It ended because its run told it to."""
    until: float | None = None
    """The time at which an executor that is no longer wanted is closed."""
    missed_since: float | None = None
    """Since when its run has not heard of it; None: it has, or has not said so yet."""


@dataclass(slots=True)
class _Failures:
    """How many executors of a run failed in a row on a node, and why the last one did."""

    count: int = 0
    why: str = ""


class Executors:
    """Orders the difference between the executors a node should have and those ordered so far."""

    def __init__(self) -> None:
        self._executors: dict[str, dict[str, _Ordered]] = {}
        self._failures: dict[tuple[str, str], _Failures] = {}  # by run and node
        self._dismissed: set[str] = set()  # nodes that were told that they may go
        self._hung: dict[str, set[str]] = {}  # runs by node: theirs may be there all the same

    def __repr__(self) -> str:
        there = self._executors.values()
        return f"<Executors nodes={len(there)} open={sum(map(len, there))}>"

    def joined(
        self, node: str, runs: Mapping[str, int], wanted: Mapping[str, int], up: Mapping[str, int]
    ) -> list[Message]:
        """The orders for a worker daemon that is there (again) with executors of ``runs``.

        All mappings are run → epoch. Executors that are not ``wanted`` are to be closed, by
        ``orders`` if their run is ``up``: its actors may not have left yet. The wanted ones are
        ordered again by ``orders``, as the daemon may have lost some.
        """
        left = {run: epoch for run, epoch in runs.items() if wanted.get(run) != epoch}
        self._executors[node] = {
            run: _Ordered(epoch, -inf) for run, epoch in left.items() if up.get(run) == epoch
        }
        self._dismissed.discard(node)
        return [Unassign(run) for run in left if run not in self._executors[node]]

    def gone(self, nodes: Collection[str]) -> None:
        """Forget the executors of these nodes, and their failures there."""
        for node in nodes:
            self._executors.pop(node, None)
            self._hung.pop(node, None)
            self._dismissed.discard(node)
        self._failures = {key: each for key, each in self._failures.items() if key[1] not in nodes}

    def open_on(self, node: str) -> set[str]:
        """The runs that have an executor on a node, wanted or not."""
        return {run for run, each in self._executors.get(node, {}).items() if not each.closed}

    def forget_failures(self, run: str) -> None:
        """Forget the failures of a run's executors."""
        self._failures = {key: each for key, each in self._failures.items() if key[0] != run}

    def ended(self, node: str, ended: ExecutorEnded, now: float) -> None:
        """Take in that an executor is gone; if it ended by itself, ``orders`` opens another."""
        executors = self._executors.get(node, {})
        executor = executors.get(ended.run)
        if executor is None or executor.epoch != ended.epoch:
            return
        if not ended.why:
            executor.closed = True
            # It may have left others the memory that theirs failed for.
            self._failures = {
                key: each
                for key, each in self._failures.items()
                if key[1] != node or key[0] == ended.run
            }
            return
        del executors[ended.run]
        failures = self._failures.setdefault((ended.run, node), _Failures())
        lived = now - executor.since > _LONG_LIVED and executor.missed_since is None
        failures.count = 1 if lived else failures.count + 1
        failures.why = ended.why

    def heard_of(self, node: str, run: str, *, up: bool, now: float) -> ExecutorEnded | None:
        """Note whether a run says that its executor on a node is up; its end, if that is overdue.

        Then it is closed by ``orders``, in case it is there all the same.
        """
        executor = self._executors.get(node, {}).get(run)
        if executor is None or executor.closed:
            return None
        if up:
            executor.missed_since = None
        elif executor.missed_since is None:
            executor.missed_since = now
        elif now - executor.missed_since >= _MISSED:
            self._hung.setdefault(node, set()).add(run)
            why = f"the run did not hear of it for {_MISSED:,.0f} s"
            return ExecutorEnded(run, executor.epoch, why)
        return None

    def why_given_up(self, run: str, node: str) -> str:
        """Why a run gets no more executors on a node, "" if it does."""
        failures = self._failures.get((run, node))
        if failures is None or failures.count < MOST_IN_A_ROW:
            return ""
        return f"its executor on {node} ended {failures.count} times in a row: {failures.why}"

    def given_up(self, run: str) -> dict[str, str]:
        """Why a run gets no more executors on a node, by node."""
        nodes = [node for name, node in self._failures if name == run]
        return {node: why for node in nodes if (why := self.why_given_up(run, node))}

    def emptied(self, run: str, actors: Mapping[str, Collection[int]]) -> list[str]:
        """Have executors closed that are not wanted and have no actor any more; returns where.

        ``actors`` are those that the run has on each node.
        """
        found = []
        for node, there in actors.items():
            executor = self._executors.get(node, {}).get(run)
            if not there and executor is not None and executor.until is not None:
                executor.until = -inf
                found.append(node)
        return found

    def closing(self, node: str) -> bool:
        """Whether an executor that is not wanted may stay on a node for a while."""
        return any(each.until is not None for each in self._executors.get(node, {}).values())

    def dismiss(self, node: str) -> bool:
        """Whether a leaving node is to be told now that it may go; True only once."""
        if self._executors.get(node) or node in self._dismissed:
            return False
        self._dismissed.add(node)
        return True

    def is_dismissed(self, node: str) -> bool:
        """Whether a leaving node was told that it may go."""
        return node in self._dismissed

    def orders(
        self,
        node: str,
        wanted: Mapping[str, Assign],
        now: float,
        grace: Callable[[str], float] = lambda run: 0.0,
    ) -> list[Message]:
        """The orders after which the node has the wanted executors and no others.

        ``grace`` returns for how many seconds a run's executor may stay once it is not wanted.
        """
        executors = self._executors.setdefault(node, {})
        orders: list[Message] = [Unassign(run) for run in self._hung.pop(node, ())]
        for run, executor in [
            (run, executor) for run, executor in executors.items() if run not in wanted
        ]:
            executor.until = now + grace(run) if executor.until is None else executor.until
            if executor.closed or now >= executor.until:
                del executors[run]
                orders += [] if executor.closed else [Unassign(run)]
        for run, assign in wanted.items():
            old = executors.get(run)
            reopened = old is not None and old.closed and old.until is not None
            if old is None or old.epoch != assign.epoch or reopened:
                executors[run] = _Ordered(assign.epoch, now, assign)
                orders.append(assign)
            elif old.assign != assign and not old.closed:
                old.assign = assign
                orders.append(assign)
            executors[run].until = None
        return orders
