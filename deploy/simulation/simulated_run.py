"""One run on a simulated clock: the coordinator and the triggers of a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from deploy.simulation.leases import Claimant, Gate, Leases, Spent, Waits
from deploy.simulation.members import Compute, SimulatedMembers
from deploy.simulation.report import RunUsage
from deploy.simulation.timeline import Timeline
from deploy.simulation.workload import Workload
from head.run.wiring import connect

KINDS = ("slot", "device")


class SimulatedRun:
    """One run of a workload.

    ``report`` is called with its name when a member is done, and ``ended`` once, when it is over.
    """

    def __init__(
        self, name: str, workload: Workload, timeline: Timeline, seed: str,
        ended: Callable[[str], None], report: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.workload, self._timeline = name, workload, timeline
        self._random, self._ended, self._report = Random(seed), ended, report
        self.arrived = timeline.clock.now()
        self.began = self.over = -1.0
        self.spent = {kind: Spent() for kind in KINDS}
        self.waited, self.held_back = Waits(), Waits()
        self.ended_early = ""
        self._due: float | None = None

    def begin(self, since: float) -> None:
        """The head begins it; its quotas have left room for it ``since`` then."""
        self.began = self._timeline.clock.now()
        self.held_back.add(max(0.0, since - self.arrived))
        self.waited.add(self.began - max(since, self.arrived))

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

    def place(self, actors: Mapping[int, Leases | Gate]) -> None:
        """Its actors live on these nodes."""
        self._members.place(actors)

    def end_early(self, why: str) -> None:
        """It has used up a quota: it saves and ends."""
        self.ended_early = why
        self._members.stop()
        self._end()

    def held(self) -> dict[str, float]:
        """Seconds for which it has held slots and devices so far."""
        slot, device = (self.spent[kind].held_seconds for kind in KINDS)
        return {"cpu": slot, "device": device}

    def _end(self) -> None:
        self.over = self._timeline.clock.now()
        self._ended(self.name)

    def _happened(self) -> None:
        if self.over >= 0:
            return
        if self._report is not None:
            self._report(self.name)
        if self._coordinator.finished:
            self._end()
        elif (due := self._coordinator.engine.due()) is not None and due != self._due:
            self._due = due
            self._timeline.after(due - self._timeline.clock.now(), self._tick)

    def _tick(self) -> None:
        if self.over < 0:
            self._coordinator.engine.tick()
            self._happened()

    def waits_for(self) -> str:
        """What a run that does not end waits for, for people."""
        waits = self._coordinator.waits()
        return "; ".join(f"{who} waits for {what}" for who, what in list(waits.items())[:3])

    def usage(self) -> RunUsage:
        """What it took and when it ended."""
        slot, device = (self.spent[kind] for kind in KINDS)
        waits = {
            "quota": self.held_back, "start": self.waited, "slot": slot.waits,
            "device": device.waits,
        }  # fmt: skip
        return RunUsage(
            run=self.name, workload=self.workload.plan.name,
            arrived=round(self.arrived, 6), began=round(self.began, 6), ended=round(self.over, 6),
            steps=self._coordinator.steps, updates=self._members.updates,
            cpu_seconds_held=round(slot.held_seconds, 6),
            device_seconds_held=round(device.held_seconds, 6),
            waits={name: round(wait.seconds, 6) for name, wait in waits.items()},
        )  # fmt: skip
