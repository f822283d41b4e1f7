"""A workload to be simulated: its plan, how long its members take, and when its runs arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from artos.errors import Refused
from artos.runs.plan import Plan
from artos.specs.keys import MODEL_PARAM
from artos.specs.members import LEARNER, SET
from deploy.simulation.durations import Duration
from triggers.table import Table, decode_table
from triggers.targets import parsed
from triggers.wiring import SET_MAX_LAG, completed

OWNER = "owner"
"""The user of runs that name none."""


@dataclass(frozen=True)
class Starts:
    """Seconds from the start of a run's process until each member is ready."""

    process: float = 0.0
    """From the start of the command until members are started."""
    learner: float = 0.0
    actors: tuple[float, ...] = (0.0,)
    """Actor k takes the k-th of them, beginning again after the last."""

    def of_actor(self, actor: int) -> float:
        """Those of one actor."""
        return self.actors[actor % len(self.actors)]


@dataclass(frozen=True)
class Workload:
    """A workload of which ``runs`` alike runs arrive."""

    plan: Plan
    durations: Mapping[str, Duration]
    """By target of the table; an invocation of a target that is not there takes no time."""
    starts: Starts = Starts()
    sync: int = 1
    """The learner publishes a version with every ``sync``-th update."""
    runs: int = 1
    arrives: float = 0.0
    """When the first run arrives."""
    every: float = 0.0
    """Seconds from one run to the next."""
    weight: float = 1.0
    priority: int = 0
    placement: str = "spread"
    user: str = OWNER

    def wired(self) -> tuple[Plan, Table]:
        """The plan and the triggers of one run, as a run process has them.

        Raises:
            Refused: a trigger is the user's own, waits for more than rows and weights (such as the
                ends of episodes), changes max_lag, or has arguments that are none.
        """

        def own_trigger(name: str) -> Any:
            raise ValueError(f"{name} is a trigger of your own: a simulation runs no code of users")

        # What is set while a run goes is in the times of its invocations, apart from max_lag.
        rows = {t: row for t, row in self.plan.triggers.items() if parsed(t).role != SET}
        table = decode_table(rows, own_trigger)
        faults = [
            f"triggers[{target!r}] changes max_lag on the way: simulate it with one value"
            for target in self.plan.triggers
            if target == SET_MAX_LAG
        ]
        faults += [
            f"triggers[{target!r}] waits for the object {name!r}: only weights are simulated"
            for target, trigger in table.items()
            for name in trigger.objects_read()
            if name != MODEL_PARAM
        ]
        faults += [
            f"triggers[{target!r}] waits for whole episodes: how long they are is not simulated; "
            "simulate a table that takes rows, with as many steps as its episodes have on average"
            for target, trigger in table.items()
            if trigger.hands_over_episodes
        ]
        learners = sorted({parsed(t).role for t in table if parsed(t).learns})
        if learners and learners != [LEARNER]:
            faults.append(
                f"{' and '.join(learners)} learn: one learner is simulated, called {LEARNER}"
            )
        if faults:
            raise Refused(faults)
        try:
            return completed(msgspec.structs.replace(self.plan, triggers=rows), table)
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise Refused([f"its triggers cannot be completed: {error}"]) from error

    def seconds(self, target: str, random: Random) -> float:
        """How long an invocation of a target takes this time."""
        duration = self.durations.get(target)
        return 0.0 if duration is None else duration.draw(random)


def check(workloads: Iterable[Workload]) -> None:
    """Check that all of them can be simulated.

    Raises:
        Refused: lists all faults at once.
    """
    faults: list[str] = []
    for each in workloads:
        try:
            plan, _ = each.wired()
            if not plan.total_steps and not plan.total_updates:
                faults.append(f"{plan.name}: nothing ends it: say total_updates or total_steps")
        except Refused as refused:
            faults += [f"{each.plan.name}: {fault}" for fault in refused.faults]
    if faults:
        raise Refused(faults)
