"""A world without processes for the schedule: nodes that obey, runs that are up when started."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from artos.clock import ManualClock
from artos.protocol.control import (
    PROTOCOL,
    Assign,
    ExecutorEnded,
    Hello,
    Placed,
    RunNews,
    RunUp,
    Unassign,
)
from artos.protocol.message import Message
from artos.protocol.views import RunFacts
from head.daemon import rows
from head.daemon.effects import Begin, Order, Tell
from head.daemon.roster import Known, Node, Roster
from head.daemon.run import Run, State
from head.daemon.scheduler import Scheduler

VERSION = "1.0"
DEADLINE = 15.0


def empty() -> sqlite3.Connection:
    """Rows in memory, where to save costs little."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(rows.CREATE)
    return db


@dataclass
class World:
    """Carries out what a schedule wants, and keeps what there is: executors, processes, places."""

    clock: ManualClock = field(default_factory=ManualClock)
    scheduler: Scheduler = field(default_factory=Scheduler)
    actors: int = 4
    executors: dict[str, dict[str, Assign]] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    places: dict[str, dict[int, str]] = field(default_factory=dict)
    told: list[tuple[str, Placed]] = field(default_factory=list)
    ordered: list[Message] = field(default_factory=list)
    began: list[tuple[str, int, bool]] = field(default_factory=list)
    db: sqlite3.Connection = field(default_factory=empty)

    def __post_init__(self) -> None:
        self.roster = Roster(VERSION, self.clock, DEADLINE, self.scheduler.unsaved)

    # -- what happens --------------------------------------------------------------------------

    def expect(self, nodes: Iterable[Known]) -> None:
        """An earlier head knew these nodes."""
        self.roster.expect(nodes)
        self.scheduler.expect(self.roster)

    def join(self, name: str, slots: int = 2, life: str = "a", **more: object) -> Node:
        runs = {run: assign.epoch for run, assign in self.executors.setdefault(name, {}).items()}
        hello = Hello(name, PROTOCOL, VERSION, slots, 0, runs, **more)  # type: ignore[arg-type]
        node = self.roster.admit(f"{name}.{life}", hello)
        self._carry_out(self.scheduler.joined(node, hello))
        self.turn()
        return node

    def submit(self, name: str, **more: object) -> Run:
        run = Run(name, {}, f"runs/{name}", **more)  # type: ignore[arg-type]
        self.scheduler.submit(run)
        self.turn()
        return run

    def up(self, name: str) -> bool:
        run = self.scheduler.runs[name]
        taken = self.scheduler.run_up(self.run_up(run))
        self.turn()
        return taken

    def begin(self, *names: str) -> None:
        for name in names:
            self.submit(name)
            assert self.up(name)

    def run_up(self, run: Run) -> RunUp:
        asked = run.request.get("settings", {}).get("device", "cpu")
        plan = msgspec.json.encode({"device": asked})
        return RunUp(run.name, run.epoch, 1, plan, "code", "tcp://h:1", "tcp://h:2", self.actors)

    def news(self, name: str, state: str = "running", why: str = "", **facts: object) -> bool:
        told = RunNews(name, state, why, msgspec.convert(facts, RunFacts))
        return self.scheduler.run_news(told, self.clock.now())

    def ended(self, name: str, status: int | None, words: str = "") -> None:
        del self.processes[name]
        self.scheduler.run_ended(name, status, words)
        self.turn()

    def silence(self, *names: str) -> None:
        """Everybody else is heard until these are gone."""
        self.clock.advance(DEADLINE + 1)
        heard = [node for node in self.roster if node.alive and node.name not in names]
        self.roster.heard({node.peer: 0.0 for node in heard})
        late = [node.name for node in self.roster.late()]
        self.scheduler.gone(late, "not heard")
        self.turn()

    def drain(self, name: str) -> None:
        self.roster.leave(name, "drained")
        self.scheduler.leaves(name, "drained")
        self.turn()

    def undrain(self, name: str) -> None:
        self.roster.leave(name, "")
        self.scheduler.leaves(name, "")
        self.turn()

    def executor_ended(
        self, node: str, run: str, why: str = "killed", *, drained: bool = False
    ) -> None:
        assign = self.executors[node].pop(run)
        found = self.roster.get(node)
        assert found is not None
        ended = ExecutorEnded(run, assign.epoch, why)
        self.scheduler.executor_ended(found, ended, self.clock.now())
        if drained:
            self.drain(node)
        self.turn()

    def turn(self) -> None:
        effects = self.scheduler.turn(self.clock.now())
        self._save()
        self._carry_out(effects)

    def _save(self) -> None:
        rows.put(self.db, self.scheduler.unsaved)
        self.scheduler.unsaved.clear()

    def saved(self) -> State:
        """What the next head finds: saved are only rows that were named."""
        self._save()
        return rows.read(self.db)

    # -- what is done --------------------------------------------------------------------------

    def _carry_out(self, effects) -> None:
        for effect in effects:
            if isinstance(effect, Order):
                self.ordered.append(effect.message)
            match effect:
                case Begin(run=run):
                    assert run.name not in self.processes
                    self.processes[run.name] = run.epoch
                    self.began.append((run.name, run.epoch, run.resume))
                case Tell(run=run, message=Placed() as placed):
                    self.places[run.name] = placed.actors
                    self.told.append((run.name, placed))
                case Order(node=node, message=Assign() as assign):
                    self.executors[node.name][assign.run] = assign
                case Order(node=node, message=Unassign(run=run)):
                    self.executors[node.name].pop(run, None)

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        """Whatever happened: places, executors and slots fit together."""
        usable = {node.name: node for node in self.roster if node.usable}
        users: dict[str, set[str]] = {}
        for run in self.scheduler.runs.values():
            assert set(run.places.values()) <= usable.keys() or run.up is None
            assert not (run.over and run.places)
            assert all(self.roster.get(node).alive for node in run.places.values())
            assert (run.name in self.processes) == run.active
            for node in set(run.places.values()):
                users.setdefault(node, set()).add(run.name)
        for name, runs in users.items():
            node = self.roster.get(name)
            assert node is not None
            assert len(runs) <= node.most_runs, "no more than take turns there"
            executors = {
                run: executor for run, executor in self.executors[name].items() if run in runs
            }
            up = {run for run in runs if self.scheduler.runs[run].up}
            assert executors.keys() == up or not node.alive
            assert all(1 <= executor.slots <= node.slots for executor in executors.values())
            assert all(
                executor.epoch == self.scheduler.runs[run].epoch
                for run, executor in executors.items()
            )
