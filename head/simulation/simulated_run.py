"""One run on a simulated clock: the coordinator and the triggers of a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from head.run.wiring import connect
from head.simulation.leases import Claimant, Leases, Spent, Waits
from head.simulation.members import Compute, SimulatedMembers
from head.simulation.report import RunUsage
from head.simulation.timeline import Timeline
from head.simulation.workload import Workload

KINDS = ("slot", "device")


class SimulatedRun:
    """One run of a workload; ``ended`` is called once, with its name, when it is over."""

    def __init__(
        self, name: str, workload: Workload, timeline: Timeline, seed: str,
        ended: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.name, self.workload, self._timeline = name, workload, timeline
        self._random, self._ended = Random(seed), ended
        self.arrived = timeline.clock.now()
        self.began = self.over = -1.0
        self.spent = {kind: Spent() for kind in KINDS}
        self.waited = Waits()
        self._due: float | None = None

    def begin(self) -> None:
        """The head begins it."""
        self.began = self._timeline.clock.now()
        self.waited.add(self.began - self.arrived)

    def up(self, devices: Leases | None, compute: Compute) -> None:
        """Its process is up: the learner starts, on one of the ``devices`` if there are any."""
        plan, table = self.workload.wired()
        who, more = self.name, (self.workload.weight, self.workload.priority)
        claimants = {kind: Claimant(who, *more, self.spent[kind]) for kind in KINDS}
        self._members = SimulatedMembers(
            self.workload, table, self._timeline, devices, self._random, claimants, compute,
            self._happened,
        )  # fmt: skip
        self._coordinator = connect(plan, table, self._members.ports())
        self._coordinator.begin()
        self._members.begin(self._coordinator)

    def place(self, actors: Mapping[int, Leases]) -> None:
        """Its actors live on these nodes."""
        self._members.place(actors)

    def _happened(self) -> None:
        if self.over >= 0:
            return
        if self._coordinator.finished:
            self.over = self._timeline.clock.now()
            self._ended(self.name)
        elif (due := self._coordinator.engine.due()) is not None and due != self._due:
            self._due = due
            self._timeline.after(due - self._timeline.clock.now(), self._tick)

    def _tick(self) -> None:
        if self.over < 0:
            self._coordinator.engine.tick()
            self._happened()

    def waits_for(self) -> str:
        """What a run that does not end waits for, in words."""
        waits = self._coordinator.waits()
        return "; ".join(f"{who} waits for {what}" for who, what in list(waits.items())[:3])

    def usage(self) -> RunUsage:
        """What it took and when it ended."""
        slot, device = (self.spent[kind] for kind in KINDS)
        waits = {"start": self.waited, "slot": slot.waits, "device": device.waits}
        return RunUsage(
            run=self.name, workload=self.workload.plan.name,
            arrived=round(self.arrived, 6), began=round(self.began, 6), ended=round(self.over, 6),
            steps=self._coordinator.steps, updates=self._members.updates,
            cpu_seconds_held=round(slot.held_seconds, 6),
            device_seconds_held=round(device.held_seconds, 6),
            waits={name: round(wait.seconds, 6) for name, wait in waits.items()},
        )  # fmt: skip
