"""Each agent of a game with a policy and a learner of its own: ``agents=separate``."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import and_

from artos.actors.agents import AgentsActor
from artos.errors import Refused
from artos.specs.workload import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, ReplayTrigger, RoundTrigger
from triggers.base import Trigger

_OTHER_ROWS = (
    "agents=separate hands each learner the rows of its agent as they come, and {0!r} of this table"
    " is of another kind ({1}): leave out what asks for it (such as pipeline), or agents"
)


def separated(workload: Workload) -> Workload:
    """With the learner and the targets of a workload once for each policy of its agents.

    A workload whose agents share a policy, or that has none, stays as it is.

    Raises:
        Refused: its table has other rows than those of updates and of sampling.
    """
    actor, learner = workload.actor, workload.learner
    if not isinstance(actor, AgentsActor):
        return workload
    table: dict[str, Trigger] = {}
    for target, trigger in workload.triggers.items():
        role, _, method = target.partition(".")
        if role == "learner" and isinstance(trigger, DataKeyTrigger | ReplayTrigger):
            for name in actor.policies:
                own = tuple(key for key in trigger.keys if key.startswith(f"{name}/"))
                table[f"{name}.{method}"] = replace(trigger, keys=own)
        elif isinstance(trigger, ObjectKeyTrigger):
            keys = (f"{name}/{trigger.key}" for name in actor.policies)
            table[target] = reduce(and_, (replace(trigger, key=key) for key in keys))
        elif isinstance(trigger, RoundTrigger):
            table[target] = trigger
        else:
            raise Refused([_OTHER_ROWS.format(target, trigger.name)])
    learners = {name: deepcopy(learner) for name in actor.policies if learner is not None}
    return replace(workload, learner=None, learners=learners, triggers=table)
