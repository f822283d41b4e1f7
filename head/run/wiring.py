"""The one wiring function: every edge of a running workload, producer → consumer."""

from __future__ import annotations

from artos.clock import Clock
from head.run.coordination.coordinator import Coordinator
from triggers.base import Firing
from triggers.engine import Engine
from triggers.journal import Journal
from triggers.passers import DirectPasser, MessagePasser
from triggers.table import Table
from triggers.wiring import max_lags, pace, role_of, window
from triggers.wrapper import TriggerWrapper


def connect(table: Table, coordinator: Coordinator, clock: Clock, journal: Journal) -> Engine:
    """Draw the workload: which firing goes where.

    ::

        actor      --commit-->   cache buffer   --transfer-->        replay buffer
        actor      --commit-->   replay buffer  (no transfer trigger: same rows, same blocks)
        replay buffer            --learner.*-->  coordinator  --invocation-->  learner
        learner    --publish-->  model block
        model block, time        --actors.*-->   coordinator  --invocation-->  actors

    Firings are passed to the coordinator by direct calls; its invocations, by the ``passers`` of
    its members: through a mailbox on this machine, by ZeroMQ to another node.
    """
    passers: dict[str, MessagePasser[Firing]] = {
        "transfer": DirectPasser(coordinator.transfer),
        "learner": DirectPasser(coordinator.invoke_learner),
        "actors": DirectPasser(coordinator.invoke_actors),
    }
    pace(table)
    coordinator.sampling.window = window(coordinator.plan, table)
    coordinator.bindings.max_lags = max_lags(table)
    wrappers = [
        TriggerWrapper(target, trigger, passers[role_of(target)])
        for target, trigger in table.items()
    ]
    coordinator.engine = Engine(wrappers, clock, journal.fired)
    return coordinator.engine
