"""All runs of a cluster, which of them changed, and which are in what state. Pure."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from artos.protocol.run_state import QUEUED
from head.daemon.ranking import Ranking
from head.daemon.run import Run, Sought
from head.daemon.unsaved import Table, Unsaved

T = TypeVar("T")

_FEW = 4
_MOST_OVER = 200


class Runs:
    """Runs by name, in the order in which they were submitted, with sets of those in some states.

    The sets are right as long as ``changed`` is called after every change of a run.
    """

    def __init__(self, accounts: Iterable[str], unsaved: Unsaved) -> None:
        """``accounts`` once had runs that were charged to them."""
        self._unsaved = unsaved
        self.by_name: dict[str, Run] = {}
        self.active: set[str] = set()
        self.unplaced: set[str] = set()  # active, without an actor anywhere
        self.again: set[str] = set()  # queued again, as their process was killed
        self.no_room: set[str] = set()  # queued again, until the head's memory has room for them
        self.carried: set[str] = set()  # active, by a worker node
        self.seekers: dict[Sought, set[str]] = {}  # queued, by what a node may have
        self.new_seekers: set[str] = set()  # those that nobody has looked at yet
        self.labelled: set[str] = set()  # queued, and their nodes must have labels
        self._short = Ranking()  # up, with fewer places than actors
        self._numbers: dict[str, int] = {}
        self._count = 0
        self._over: set[tuple[int, str]] = set()
        self._queued: dict[str, set[str]] = {}  # by user
        self._tickets: dict[str, Run] = {}
        self._changed: dict[int, Run] = {}  # by identity: a name may be given to another run
        self._charged: Counter[str] = Counter()
        self._left = {*accounts}

    def __repr__(self) -> str:
        counts = Counter(run.state for run in self.by_name.values())
        return f"<Runs {' '.join(f'{state}={n}' for state, n in counts.items())}>"

    def add(self, run: Run) -> None:
        """Add a run that is submitted, for the first time or to be resumed."""
        if run.name in self.by_name:
            self._forget(run.name)
        self._count += 1
        self._tickets[run.ticket] = run
        self._numbers[run.name], self.by_name[run.name] = self._count, run
        self._charged[run.charged_to] += 1
        self.changed(run)

    def withdraw(self, run: Run) -> None:
        """Undo ``add``."""
        self._forget(run.name)
        self._changed.pop(id(run), None)

    @property
    def archives(self) -> set[str]:
        """The code of all runs, also of those that are over: they may be resumed."""
        return {run.archive for run in self.by_name.values()}

    def with_ticket(self, ticket: str) -> Run | None:
        """The run of the submission with this ticket."""
        return self._tickets.get(ticket)

    def queued(self, user: str) -> int:
        """How many runs of a user wait to begin."""
        return len(self._queued.get(user, ()))

    @property
    def some_wait(self) -> bool:
        """Whether a run waits to begin, other than for a node with its labels."""
        return sum(map(len, self._queued.values())) > len(self.labelled)

    def tidy(self) -> None:
        """Forget the oldest runs that are over, if they are many."""
        for _, name in heapq.nsmallest(len(self._over) - _MOST_OVER, self._over):
            self._forget(name)

    def _forget(self, name: str) -> None:
        run = self.by_name.pop(name)
        self._over.discard((self._numbers.pop(name), name))
        self.labelled.discard(name)
        self._seek(run, there=False)
        self._wait(run, there=False)
        if self._tickets.get(run.ticket) is run:
            del self._tickets[run.ticket]
        self._charged[run.charged_to] -= 1
        self._left.add(run.charged_to)
        self._unsaved.drop(Table.RUN, name)

    def changed(self, run: Run) -> None:
        """Take in that the state, process or places of a run have changed."""
        name, short = run.name, run.up is not None and len(run.places) < run.up.actors
        _put(self.active, name, run.active)
        _put(self.unplaced, name, run.active and not run.places)
        again = run.state == QUEUED and run.admitted
        _put(self.again, name, again and not run.no_room)
        _put(self.no_room, name, again and run.no_room)
        waits = run.state == QUEUED and not run.admitted
        _put(self.labelled, name, bool(run.where) and waits)
        self._seek(run, there=waits)
        _put(self.carried, name, run.active and bool(run.carrier))
        if short:
            self._short.put(name, (0, self._numbers[name]))
        else:
            self._short.drop(name)
        _put(self._over, (self._numbers[name], name), run.over)
        self._wait(run, run.state == QUEUED)
        self._changed[id(run)] = run
        self._unsaved.put(Table.RUN, name, run)

    def try_again(self) -> None:
        """There may be room for those that the head's memory had none for."""
        for name in [*self.no_room]:
            self.by_name[name].no_room = False
            self.changed(self.by_name[name])

    def _seek(self, run: Run, there: bool) -> None:
        if run.sought is None:
            return
        names = self.seekers.setdefault(run.sought, set())
        if there and run.name not in names:
            self.new_seekers.add(run.name)
        elif not there:
            self.new_seekers.discard(run.name)
        _put(names, run.name, there)
        if not names:
            del self.seekers[run.sought]

    def _wait(self, run: Run, there: bool) -> None:
        waiting = self._queued.setdefault(run.user, set())
        _put(waiting, run.name, there)
        if not waiting:
            del self._queued[run.user]

    def take_changed(self) -> list[Run]:
        """Runs that changed since the last call: first those that are over, each in order."""
        changed, self._changed = self._changed.values(), {}
        return sorted(changed, key=lambda run: (not run.over, self._numbers.get(run.name, 0)))

    def take_left(self) -> list[str]:
        """Accounts that had a run at the last call, and have none now."""
        left, self._left = self._left, set()
        for name in (gone := [name for name in left if not self._charged[name]]):
            del self._charged[name]
        return gone

    def in_order(self, names: Iterable[str]) -> list[Run]:
        """The runs with these names, in the order of their submission."""
        return [self.by_name[name] for name in sorted(names, key=self._numbers.__getitem__)]

    def to_place(self, moved: Iterable[str], room: Callable[[], bool]) -> Iterator[Run]:
        """Runs that have ``moved`` and, while there is ``room``, runs that are short of a place.

        They come in the order of submission. Of those short of a place no more are looked at than
        get one, or would get one if they could use it.
        """
        movers, short = deque(self.in_order(moved)), deque[Run]()
        last, look = 0, _FEW

        def seen(name: str) -> bool:
            return self._numbers[name] <= last

        while True:
            if not short and room():
                short.extend(self.in_order(self._short.lowest(look, seen)))
                look *= 2
            waiting = [each for each in (movers, short if room() else None) if each]
            if not waiting:
                return
            run = min((each[0] for each in waiting), key=self.number)
            for each in waiting:
                if each[0] is run:
                    each.popleft()
            last = self.number(run)
            yield run

    def number(self, run: Run) -> int:
        """Grows in the order of submission."""
        return self._numbers.get(run.name, 0)


def _put(names: set[T], name: T, there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)
