"""What keeps agents of several policies from having these learners and this table."""

from __future__ import annotations

from collections.abc import Iterator

from artos.specs.workload import Workload


def policy_faults(workload: Workload) -> Iterator[str]:
    """Policies that nobody learns, or that stand in another order."""
    policies, learners = tuple(workload.actor.policies), [*workload.every_learner]
    for name in policies:
        if name not in learners:
            yield (
                f"agents are played by the policy {name!r}, and no learner is called so (there is "
                f"{', '.join(learners)}): give the workload learners={{{name!r}: LEARNER, ...}}"
            )
    if policies and policies[0] != learners[0] and policies[0] in learners:
        yield (
            f"the first policy of agents is {policies[0]!r}, the first learner {learners[0]!r}: "
            "actors act with the weights of the first one, so name it first in both"
        )


def table_faults(workload: Workload) -> Iterator[str]:
    """Rows of the table that cannot be, where each policy has rows of its own."""
    parts = workload.actor.parts
    for target, trigger in workload.triggers.items():
        role, read = target.partition(".")[0], trigger.keys_read()
        if trigger.hands_over_episodes or trigger.draw is not None:
            what = "whole episodes" if trigger.hands_over_episodes else "rows drawn from replay"
            yield (
                f"triggers[{target!r}] is of {what}, and rows of several policies are claimed in "
                f"rounds: write DataKeyTrigger(actor.keys({role!r}), size=steps), with a learner "
                "such as PPO"
            )
        elif role in parts and (strange := [n for n in read if not n.startswith(f"{role}/")]):
            yield (
                f"triggers[{target!r}] has {', '.join(map(repr, strange))}, which are no rows of "
                f"the {role}'s agents: write actor.keys({role!r}), which are {role}/KEY"
            )
