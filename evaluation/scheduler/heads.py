"""The head's turn: what one event takes until it is decided, and the decision is on the disk.

By turns a run ends, another one is submitted and begins, and its process is up and gets its actor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec

from artos.clock import ManualClock
from artos.protocol.control import RunUp
from artos.system.durable import write_durably
from artos.version import VERSION
from head.daemon.roster import Known, Roster
from head.daemon.run import Run, State
from head.daemon.scheduler import Scheduler
from head.daemon.store import Store

_SLOTS = 8
_EVENT_SECONDS = 0.01


class _Head:
    """A head without messages; so many runs are up and have an actor each."""

    def __init__(self, runs: int) -> None:
        self.scheduler, self.clock = Scheduler(), ManualClock()
        self.roster = Roster(VERSION, self.clock, unsaved=self.scheduler.unsaved)
        self.roster.expect(Known(f"n{n}", _SLOTS) for n in range(-(-runs // _SLOTS)))
        self.scheduler.expect(self.roster)
        self._events = self._happen(runs)
        for n in range(runs):
            self._submit(n)
        self._turn()
        for n in range(runs):
            self._up(n)
        self._turn()

    def _happen(self, runs: int) -> Iterator[None]:
        for new in count(runs):
            self.scheduler.run_ended(f"r{new - runs}", 0, "")
            yield
            self._submit(new)
            yield
            self._up(new)
            yield

    def _submit(self, number: int) -> None:
        request = {"workload": f"w{number % 4}", "settings": {"weight": 1 + number % 3}}
        self.scheduler.submit(Run(f"r{number}", request, f"runs/r{number}"))

    def _up(self, number: int) -> None:
        run = self.scheduler.runs[f"r{number}"]
        up = RunUp(run.name, run.epoch, 1, b"{}", run.folder, "tcp://h:1", "tcp://h:2", 1)
        assert self.scheduler.run_up(up), f"{run.name} has not begun"

    def _turn(self) -> None:
        self.clock.advance(_EVENT_SECONDS)
        self.scheduler.turn(self.clock.now())

    def event(self) -> None:
        """The next event, and what follows from it."""
        next(self._events)
        self._turn()


@contextmanager
def rows(runs: int) -> Iterator[Callable[[], None]]:
    """Ours: the rows that the event named, in one transaction."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        store.load()
        head = _Head(runs)

        def turn() -> None:
            head.event()
            store.save(head.scheduler.unsaved)

        yield turn


@contextmanager
def one_file(runs: int) -> Iterator[Callable[[], None]]:
    """All that the head knows of runs and nodes, as a JSON file that replaces the last one."""
    with tempfile.TemporaryDirectory() as folder:
        head = _Head(runs)

        def turn() -> None:
            head.event()
            nodes = tuple(node.known for node in head.roster)
            state = State(tuple(head.scheduler.runs.values()), nodes)
            write_durably(Path(folder) / "state.json", msgspec.json.encode(state))

        yield turn
