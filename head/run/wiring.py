"""The one wiring function: every edge of a running workload, producer → consumer."""

from __future__ import annotations

from artos.plan import Plan
from artos.spec import VERSION_KEY
from head.run.coordination.active_actors import Scaler
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.dispatcher import Dispatcher
from head.run.coordination.failures import FailureLimits
from head.run.coordination.ports import Ports
from head.run.coordination.recovery import Recovery
from head.run.coordination.state import RunState
from triggers.base import Arrived, Event, Firing
from triggers.engine import DirectPasser, Engine, MessagePasser, TriggerWrapper
from triggers.prewarm import PREWARM
from triggers.table import Table
from triggers.wiring import role_of, window


def connect(
    plan: Plan,
    table: Table,
    ports: Ports,
    base_steps: int = 0,
    limits: FailureLimits | None = None,
    scaler: Scaler | None = None,
) -> Coordinator:
    """Draw the workload: which firing goes where.

    ::

        actor      --commit-->   cache buffer   --transfer-->        replay buffer
        actor      --commit-->   replay buffer  (no transfer trigger: same rows, same blocks)
        replay buffer            --learner.*-->  dispatcher   --invocation-->  learner
        learner    --publish-->  model block
        model block, time        --actors.*-->   dispatcher   --invocation-->  actors
        model block, time        --evaluator.play--> dispatcher --invocation-->  evaluator
        forecast                 --actors.prewarm--> dispatcher --order-->       process managers

    Firings are passed to the dispatcher by direct calls; its invocations, by the ``passers`` of
    the members: through a mailbox on this machine, by ZeroMQ to another node.
    """

    def arrive(firing: Firing) -> None:
        # Head and worker share this machine's blocks: rows that are transferred have arrived.
        for claim in firing.claims:
            rows = dict.fromkeys((*firing.keys, VERSION_KEY), claim.stop)
            engine.feed(Arrived(claim.actor, rows, firing.version))

    def clocks() -> set[str]:
        return engine.clocks()

    def feed(event: Event) -> None:
        engine.feed(event)

    state = RunState(plan, table, ports, base_steps, limits, scaler)
    recovery = Recovery(ports, state)
    dispatcher = Dispatcher(ports, state, recovery, window(plan, table), clocks, feed)
    passers: dict[str, MessagePasser[Firing]] = {
        "transfer": DirectPasser(arrive),
        "learner": DirectPasser(dispatcher.invoke_learner),
        "actors": DirectPasser(dispatcher.invoke_actors),
        PREWARM: DirectPasser(dispatcher.prewarm_actors),
        "evaluator": DirectPasser(dispatcher.invoke_evaluator),
    }
    wrappers = [
        TriggerWrapper(target, trigger, passers.get(target) or passers[role_of(target)])
        for target, trigger in table.items()
    ]
    engine = Engine(wrappers, ports.clock, ports.journal.fired)
    return Coordinator(ports, state, recovery, dispatcher, engine)
