"""Which queued run begins next: the pool's fair queue, for places on the cluster. Pure.

A run that begins takes one place, and its workload is charged for the slots that its actors have
from then on, by the rule of ``FairQueue``: higher priorities come first, then the workload that has
held the fewest slot-seconds for its weight; every fourth turn goes to the run that has waited
longest, if longer than ``PATIENCE``. Within a workload and priority, runs begin in the order in
which they were submitted. A user's runs with the same workload name share one account, with the
weight of the newest. A run that is held back stands in no one's way; its wait counts from when it
no longer is. Nothing is ever ended, parked or slowed down for a run that waits.

A bound follows: if no run takes longer than L seconds, and the waiting runs are of p different
users, workloads and priorities, then the first run of each of these p waits at most
``longest_wait(L, p)``, and each run behind it that much longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Protocol

import msgspec

from artos.pool.accounts import Account
from artos.pool.fair_queue import FairQueue
from artos.pool.fair_queue import longest_wait as bound
from artos.pool.resources import Resource, Want
from artos.protocol.run_state import QUEUED
from head.daemon.unsaved import Table, Unsaved

PATIENCE = 600.0
"""Seconds after which a run that waits is overdue."""
_PLACE = "place"
"""Room for a run, wherever its process will be."""


def longest_wait(longest_run: float, queues: int, ahead: int = 0) -> float:
    """The most seconds a run waits among ``queues``, with ``ahead`` runs before it in its own."""
    return bound(longest_run, queues, ahead, PATIENCE)


class QueuedRun(Protocol):
    """What the queue reads of a run."""

    name: str
    state: str
    admitted: bool
    """Whether it was begun and is not over."""
    waits_since: float

    @property
    def charged_to(self) -> str:
        """The name of its account."""

    @property
    def weight(self) -> float:
        """The share of its account."""

    @property
    def priority(self) -> int:
        """Higher ones come first."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""

    @property
    def sought(self) -> tuple[object, ...] | None:
        """What a node must have to carry it; None: no node may."""


class QueueState(msgspec.Struct, frozen=True):
    """What a restarted head must know of the queue; times are those of the machine's clock."""

    accounts: tuple[Account, ...] = ()
    fair_turns: int = 0


class RunQueue:
    """The runs that wait and those that have begun; ``state`` is that of an earlier head."""

    def __init__(
        self, state: QueueState | None = None, now: float = 0.0, unsaved: Unsaved | None = None
    ) -> None:
        state = state or QueueState()
        self._unsaved = Unsaved() if unsaved is None else unsaved
        # As they would be now: runs went on without a head. Who holds or waits is counted again.
        accounts = [
            replace(
                saved,
                seconds=saved.seconds_at(max(now, saved.since)),
                since=now,
                units=0,
                waiting=0,
            )
            for saved in state.accounts
        ]
        for account in accounts:
            self._unsaved.put(Table.ACCOUNT, account.workload, account)
        self._queue: FairQueue[str] = FairQueue(
            [Resource(_PLACE, "run", share=0)], accounts, patience=PATIENCE,
            fair_turns=state.fair_turns,
        )  # fmt: skip
        self._known: dict[str, QueuedRun] = {}
        self._begun: dict[str, str] = {}  # runs, and the place that they have
        self._numbers: dict[str, int] = {}
        self._met = 0
        self._line: _Line | None = None  # as it is now, once it was asked for
        self.now = now

    def see(self, changed: Iterable[QueuedRun], left: Iterable[str], now: float) -> None:
        """Take in runs that are new or over, and accounts that have ``left``: without runs now.

        Runs that are over come first, as a new run may have the name of one.
        """
        self.now, self._line = now, None
        fresh = []
        for run in changed:
            if run.over:
                if self._known.get(run.name) is run:
                    del self._known[run.name], self._numbers[run.name]
                    self._begun.pop(run.name, None)
                    self._queue.withdraw(run.name)
                    self._queue.release(run.name, self.now)
                    self._account_changed(run)
            elif run.name not in self._known:
                fresh.append(run)
        for run in sorted(fresh, key=lambda run: run.waits_since):
            self._met += 1
            self._known[run.name], self._numbers[run.name] = run, self._met
            account = self._queue.accounts.setdefault(
                run.charged_to, Account(run.charged_to, run.weight, since=self.now)
            )
            account.reweigh(run.weight, self.now)
            run.admitted |= run.state != QUEUED  # this head began it, or an earlier one
            if run.admitted:
                self._begun[run.name] = _PLACE
                self._queue.hold(run.name, account, self.now, want=Want(), resource=_PLACE)
                self._account_changed(run)
                continue
            if not 0 < run.waits_since <= self.now:  # new, or the machine has rebooted since
                run.waits_since = self.now
            self._wait(run, account)
        for name in left:  # the account would be kept forever
            self._queue.accounts.pop(name, None)
            self._unsaved.drop(Table.ACCOUNT, name)

    def _wait(self, run: QueuedRun, account: Account) -> None:
        self._queue.arrive(account, self.now)
        want = Want(_PLACE, instead=_on_a_node(run.sought) if run.sought else "")
        self._queue.wait(run.name, account, run.waits_since, want=want, priority=run.priority)
        self._account_changed(run)

    def _account_changed(self, run: QueuedRun) -> None:
        self._unsaved.put(Table.ACCOUNT, run.charged_to, self._queue.accounts[run.charged_to])

    def hold_back(self, doubtful: Iterable[str], beyond: Callable[[QueuedRun], bool]) -> None:
        """Of these runs, keep those that are ``beyond`` a limit out of the queue, the others in."""
        self._line = None
        names = [name for name in doubtful if name in self._known and name not in self._begun]
        for run in [self._known[name] for name in sorted(names, key=self._numbers.__getitem__)]:
            if beyond(run) == (run.name in self._queue):
                if run.name in self._queue:
                    self._queue.withdraw(run.name)
                else:
                    run.waits_since = self.now
                    self._unsaved.put(Table.RUN, run.name, run)
                    self._wait(run, self._queue.accounts[run.charged_to])

    @property
    def waits(self) -> bool:
        """Whether a run waits to begin."""
        return len(self._known) > len(self._begun)

    def charge(self, slots: Mapping[str, int]) -> None:
        """Charge these runs for so many slots from now on, at least one for a run that has begun.

        Runs that are not named hold as many as before.
        """
        self._line = None
        for name in slots.keys() & self._begun.keys():
            self._queue.charge(name, max(1, slots[name]), self.now)
            self._account_changed(self._known[name])

    def next(self, room: int, on_nodes: Iterable[tuple[object, ...]] = ()) -> list[str]:
        """The runs that begin now; they are ``admitted``.

        There is room for so many, and on nodes for one more of each that seeks one of these.
        """
        self._line = None
        there = Counter(self._begun.values())
        more = {_PLACE: max(0, room)} | {_on_a_node(each): 1 for each in on_nodes}
        for place, count in more.items():
            self._queue.resize(place, there[place] + count)
        turns = self._queue.fair_turns
        granted = dict(self._queue.grants(self.now))
        self._begun |= granted
        for place in more:
            self._queue.resize(place, 0)  # what is left is not for runs that come later
        for name in (names := [*granted]):
            self._known[name].admitted = True
            self._account_changed(self._known[name])
        if turns != self._queue.fair_turns:
            self._unsaved.put(Table.FAIR_TURNS, "", self._queue.fair_turns)
        return names

    def words(self, run: QueuedRun) -> str:
        """The runs before one that waits, as text; "" if there are none known."""
        if self._line is None:
            waiting = (each for name, each in self._known.items() if name not in self._begun)
            self._line = _Line([r for r in waiting if r.name in self._queue], self._virtual)
        above, less, ahead = self._line.before(run, self._virtual(run))
        facts = (
            (above, "of higher priority"),
            (less, "of users or workloads that have held less"),
            (ahead, "of its workload"),
        )
        return ", ".join(f"{count} {words}" for count, words in facts if count)

    def _virtual(self, run: QueuedRun) -> float:
        account = self._queue.accounts.get(run.charged_to)
        return account.virtual(self.now) if account else 0.0

    def __repr__(self) -> str:
        return f"<RunQueue {self._queue!r}>"


def _on_a_node(sought: tuple[object, ...]) -> str:
    return f"{_PLACE} on a node with {sought}"


class _Line:
    """The waiting runs, counted once for all questions about how many are before one."""

    def __init__(self, waiting: Iterable[QueuedRun], virtual: Callable[[QueuedRun], float]) -> None:
        """``waiting`` in the order of their submission."""
        queues: dict[int, dict[str, list[QueuedRun]]] = {}  # by priority and workload
        for run in waiting:
            queues.setdefault(run.priority, {}).setdefault(run.charged_to, []).append(run)
        self._ahead = {
            run.name: ahead
            for workloads in queues.values()
            for queue in workloads.values()
            for ahead, run in enumerate(queue)
        }
        self._queues = queues
        self._counts: dict[int, tuple[list[float], list[int]]] = {}
        for priority, workloads in queues.items():
            held = sorted((virtual(queue[0]), len(queue)) for queue in workloads.values())
            sums = [*accumulate((count for _, count in held), initial=0)]
            self._counts[priority] = [seconds for seconds, _ in held], sums

    def before(self, run: QueuedRun, virtual: float) -> tuple[int, int, int]:
        """How many have a higher priority, have held less, or came earlier of its workload."""
        above = sum(sums[-1] for level, (_, sums) in self._counts.items() if level > run.priority)
        held, sums = self._counts.get(run.priority, ([], [0]))
        own = self._queues.get(run.priority, {}).get(run.charged_to, ())
        return above, sums[bisect_left(held, virtual)], self._ahead.get(run.name, len(own))
