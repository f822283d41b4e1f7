"""The one wiring function: every edge of a running workload, producer → consumer."""

from __future__ import annotations

from collections.abc import Callable

from artos.clock import Clock
from head.coordinator import Coordinator
from triggers.base import Firing
from triggers.engine import Engine
from triggers.journal import Journal
from triggers.passers import DirectPasser
from triggers.table import Table
from triggers.wiring import max_lags, pace, role_of, window
from triggers.wrapper import TriggerWrapper


def connect(table: Table, coordinator: Coordinator, clock: Clock, journal: Journal) -> Engine:
    """Draw the workload: which firing goes where.

    ::

        actor      --commit-->   cache buffer   --transfer-->        replay buffer
        actor      --commit-->   replay buffer  (no transfer trigger: same rows, same blocks)
        replay buffer            --learner.*-->  learner
        learner    --publish-->  model block
        model block, time        --actors.*-->   actors
    """
    destinations: dict[str, Callable[[Firing], None]] = {
        "transfer": coordinator.transfer,
        "learner": coordinator.invoke_learner,
        "actors": coordinator.invoke_actors,
    }
    pace(table)
    coordinator.sampling.window = window(coordinator.plan, table)
    coordinator.bindings.max_lags = max_lags(table)
    wrappers = [
        TriggerWrapper(target, trigger, DirectPasser(destinations[role_of(target)]))
        for target, trigger in table.items()
    ]
    coordinator.engine = Engine(wrappers, clock, journal.fired)
    return coordinator.engine
