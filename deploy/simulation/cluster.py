"""A cluster on a simulated clock: the head's own scheduler, and the pool's queue on every node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from artos.errors import Refused
from artos.protocol.control import Assign, Placed, RunNews, RunUp
from artos.protocol.run_state import RUNNING
from artos.protocol.views import RunFacts
from artos.runs.exit_status import ExitStatus
from artos.specs.devices import CPU, POOL
from deploy.simulation.leases import Gate, Leases, Waits
from deploy.simulation.processors import Processors
from deploy.simulation.report import Forecast
from deploy.simulation.simulated_run import SimulatedRun
from deploy.simulation.timeline import Timeline
from deploy.simulation.workload import Workload, check
from head.daemon.effects import Begin, Finish, Order, Tell
from head.daemon.quotas import Quotas
from head.daemon.roster import Node
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler

MOST_NODES, MOST_SLOTS = 100_000, 4_096


class Cluster:
    """``nodes`` alike nodes of ``slots`` CPU slots each, and a pool of ``devices`` for learners.

    Decisions are made by what makes them on a real cluster: the head's scheduler begins runs and
    places actors, each run's coordinator and triggers decide who samples and learns, and the
    pool's fair queue gives out the slots of each node, and the devices. Members take drawn or
    recorded seconds. One node without devices is a machine on which learners compute, too: if more
    members do than it has slots, all are slower. Else no learner takes a CPU from anybody. Who has
    used up the seconds of its ``quotas`` ends at once. What is left out: the network, idle tiers,
    failures, caches and memory buses.
    """

    def __init__(
        self, nodes: int, slots: int, devices: int = 0, seed: int = 1,
        quotas: Quotas | None = None, runs_per_slot: int = 1,
    ) -> None:  # fmt: skip
        self._quotas = quotas or Quotas()
        faults = [
            f"--{name} must be {least} to {most:,}, not {given}"
            for name, given, least, most in (
                ("nodes", nodes, 1, MOST_NODES),
                ("slots", slots, 1, MOST_SLOTS),
                ("devices", devices, 0, MOST_NODES),
                ("runs-per-slot", runs_per_slot, 1, MOST_SLOTS),
            )
            if not least <= given <= most
        ]
        if faults := faults or self._quotas.beyond(nodes * slots, devices):
            raise Refused(faults)
        self._timeline, self._seed = Timeline(), seed
        peer = "n" if self._quotas else ""  # orders say how many slots a quota leaves
        self._nodes = [
            Node(f"n{n}", slots, 0.0, peer, runs_per_slot=runs_per_slot) for n in range(nodes)
        ]
        self._slots, self._count, self._runs_per_slot = slots, devices, runs_per_slot
        self._leases: dict[str, Leases] = {}
        self._gates: dict[tuple[str, str], Gate] = {}  # by run and node
        self._devices = self._made("d", devices, "device") if devices else None
        one_machine = nodes == 1 and not devices
        processors = Processors(slots, self._timeline)
        self._compute = processors.compute if one_machine else self._timeline.after
        self._stirred: dict[Leases, None] = {}
        self._scheduler = Scheduler(quotas=self._quotas)
        self._scheduler.expect(self._nodes)
        self._runs: dict[str, SimulatedRun] = {}
        self._to_decide = False

    def run(self, workloads: Sequence[Workload]) -> Forecast:
        """Simulate all runs to their ends.

        Raises:
            Refused: a workload cannot be simulated; lists all faults at once.
        """
        check(workloads)
        began = time.perf_counter()
        numbers: dict[str, int] = {}
        for workload in workloads:
            name = workload.plan.name
            for n in range(workload.runs):
                number = numbers[name] = numbers.get(name, 0) + 1
                arrives = workload.arrives + n * workload.every
                self._timeline.after(arrives, partial(self._submit, workload, f"{name}-{number}"))
        self._timeline.run(self._settle)
        seconds = time.perf_counter() - began
        over = [run for run in self._runs.values() if run.over >= 0]
        usage = tuple(run.usage() for run in over)
        span = max((run.over for run in over), default=0.0)
        slots = span * len(self._nodes) * self._slots
        held = {
            "slots": _share(sum(each.cpu_seconds_held for each in usage), slots),
            "devices": _share(sum(each.device_seconds_held for each in usage), span * self._count),
        }
        waits = {"quota": Waits(), "start": Waits(), "slot": Waits(), "device": Waits()}
        for run in over:
            waits["quota"].merge(run.held_back)
            waits["start"].merge(run.waited)
            for kind, spent in run.spent.items():
                waits[kind].merge(spent.waits)
        queued = self._scheduler.waits
        return Forecast(
            nodes=len(self._nodes), slots=self._slots, runs_per_slot=self._runs_per_slot,
            devices=self._count, makespan=round(span, 6), utilisation=held, usage=usage,
            waits={name: each.facts() for name, each in waits.items()},
            events=self._timeline.count, simulated_in=round(seconds, 3),
            ended_early={run.name: run.ended_early for run in over if run.ended_early},
            unfinished={
                name: queued.of(self._scheduler.runs[name]) or run.waits_for()
                for name, run in self._runs.items() if run.over < 0
            },
        )  # fmt: skip

    # -- what happens --------------------------------------------------------------------------

    def _submit(self, workload: Workload, name: str) -> None:
        seed = f"{self._seed} {name}"
        report = self._report if self._quotas.limit_seconds else None
        self._runs[name] = SimulatedRun(name, workload, self._timeline, seed, self._ended, report)
        device = POOL if self._devices else CPU
        settings = {"weight": workload.weight, "priority": workload.priority, "device": device}
        request = {"workload": workload.plan.name, "settings": settings}
        run = Run(name, request, name, placement=workload.placement, user=workload.user)
        self._scheduler.submit(run)
        self._to_decide = True

    def _up(self, name: str) -> None:
        run, scheduled = self._runs[name], self._scheduler.runs[name]
        run.up(self._devices, self._compute)
        actors = run.workload.plan.actors
        self._scheduler.run_up(RunUp(name, scheduled.epoch, 1, b"", "", "", "", actors))
        self._to_decide = True

    def _report(self, name: str) -> None:
        """What a run has held so far counts for its quotas."""
        held = {f"{kind}_seconds_held": spent for kind, spent in self._runs[name].held().items()}
        news = RunNews(name, RUNNING, facts=RunFacts(usage=held))
        self._scheduler.run_news(news, self._timeline.clock.now())
        self._to_decide = True

    def _ended(self, name: str) -> None:
        early = self._runs[name].ended_early
        self._scheduler.run_ended(name, ExitStatus.INTERRUPTED if early else ExitStatus.DONE, "")
        self._to_decide = True

    # -- what is decided -----------------------------------------------------------------------

    def _settle(self) -> None:
        while self._stirred or self._to_decide:
            if self._to_decide:
                self._to_decide = False
                self._decide()
            stirred, self._stirred = self._stirred, {}
            for leases in stirred:
                leases.grant()

    def _decide(self) -> None:
        for effect in self._scheduler.turn(self._timeline.clock.now()):
            match effect:
                case Begin(run=run):
                    begun = self._runs[run.name]
                    begun.begin(run.waits_since)
                    seconds = begun.workload.starts.process
                    self._timeline.after(seconds, partial(self._up, run.name))
                case Tell(run=run, message=Placed() as placed):
                    places = {
                        actor: self._of(run.name, node) for actor, node in placed.actors.items()
                    }
                    self._runs[run.name].place(places)
                case Order(node=node, message=Assign(run=name, slots=slots)):
                    self._gates[name, node.name].limit(slots)
                case Finish(run=run):
                    self._runs[run.name].end_early(run.why)

    def _of(self, run: str, node: str) -> Leases | Gate:
        if node not in self._leases:
            self._leases[node] = self._made(f"{node}.", self._slots, "slot")
        leases = self._leases[node]
        if not self._quotas:
            return leases
        if (run, node) not in self._gates:
            waits = self._runs[run].held_back
            self._gates[run, node] = Gate(leases, self._timeline.clock, waits)
        return self._gates[run, node]

    def _made(self, prefix: str, count: int, kind: str) -> Leases:
        names = [f"{prefix}{n}" for n in range(count)]
        return Leases(names, kind, self._timeline.clock, self._stir)

    def _stir(self, leases: Leases) -> None:
        self._stirred[leases] = None

    def __repr__(self) -> str:
        return f"<Cluster nodes={len(self._nodes)} runs={len(self._runs)} {self._timeline!r}>"


def _share(held: float, there: float) -> float:
    return round(held / there, 4) if there else 0.0
