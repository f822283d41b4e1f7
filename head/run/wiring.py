"""The one wiring function: every edge of a running workload, and everything that follows it."""

from __future__ import annotations

from artos.runs.plan import Plan
from artos.runtime.taping import not_recorded
from artos.specs.configuration import Configuration
from artos.specs.members import ACTORS, EVALUATOR, SET, TRANSFER
from head.run.concerns.afterwards import Afterwards
from head.run.concerns.budget import Budget
from head.run.concerns.causes import Causes
from head.run.concerns.configured import Configured, Keep
from head.run.concerns.episodes import EpisodesOver
from head.run.concerns.evaluation import Evaluation
from head.run.concerns.failures import FailureLimits
from head.run.concerns.lag import Lag
from head.run.concerns.learning import Learning
from head.run.concerns.leases import Leases
from head.run.concerns.prewarming import Prewarming
from head.run.concerns.recording import Recording
from head.run.concerns.records import Records
from head.run.concerns.recovery import Recovery
from head.run.concerns.relocation import Relocation
from head.run.concerns.returns import Returns
from head.run.concerns.sampling import Sampling
from head.run.concerns.scaling import Scaler, Scaling
from head.run.concerns.standstill import Standstill
from head.run.concerns.transfer import Transfer
from head.run.coordination.ports import Ports
from head.run.run import Run
from triggers.pacing import hands_over_episodes
from triggers.prewarm import PREWARM
from triggers.table import Table
from triggers.targets import parsed


def connect(
    plan: Plan,
    table: Table,
    ports: Ports,
    base_steps: int = 0,
    limits: FailureLimits | None = None,
    scaler: Scaler | None = None,
    configuration: Configuration | None = None,
    keep: Keep | None = None,
) -> Run:
    """Draw the workload: which firing goes where, and what else a run has.

    ::

        actor      --commit-->   cache buffer   --transfer-->        replay buffer
        actor      --commit-->   replay buffer  (no transfer trigger: same rows, same blocks)
        replay buffer            --LEARNER.*-->       learning     --invocation-->  learners
        learner    --publish-->  its model block
        model block, time        --actors.*-->        sampling     --invocation-->  actors
        model block, time        --evaluator.play-->  evaluation   --invocation-->  evaluator
        forecast                 --actors.prewarm-->  prewarming   --order-->       process managers
        whatever the table says  --set.NAME-->        configured   --settings-->    invocations
        actor      --request-->  request block  --SERVER.answer-->  server  --answer-->  actor

    Firings are passed on by direct calls; invocations, by the ``passers`` of the members: through a
    mailbox on this machine, by ZeroMQ to another node. A server checks itself what fires it.
    """
    run = Run(plan, ports, base_steps)
    limits = limits or FailureLimits.within(plan.deadline)
    concerns = (
        Records(run),
        *(() if any(not_recorded(plan)) else [Recording(run)]),
        configured := Configured(run, table, configuration or Configuration(), keep),
        Leases(run),
        Lag(run),
        Budget(run),
        Afterwards(run),
        Returns(run, table),
        Scaling(run, table, scaler or Scaler(plan)),
        prewarming := Prewarming(run, table),
        sampling := Sampling(run, table),
        evaluation := Evaluation(run, limits),
        Relocation(run),
        *([EpisodesOver(run, table)] if hands_over_episodes(table) else ()),
        Recovery(run, limits),
        Standstill(run, limits),
        transfer := Transfer(run),
        learning := Learning(run),
        Causes(run),
    )
    destinations = {
        TRANSFER: transfer.fire,
        **dict.fromkeys(plan.learners, learning.fire),
        ACTORS: sampling.fire,
        PREWARM: prewarming.fire,
        EVALUATOR: evaluation.fire,
        SET: configured.fire,
    }
    here = {target: each for target, each in table.items() if not parsed(target).answers}
    run.wire(here, destinations, concerns)
    return run
