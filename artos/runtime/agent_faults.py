"""What keeps agents of several policies from having these learners and this table."""

from __future__ import annotations

from collections.abc import Iterator

from artos.buffer.part_of_block import Part
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


def drawing_from(workload: Workload, name: str) -> set[str]:
    """Who draws from a data set."""
    return {
        target.partition(".")[0]
        for target, trigger in workload.triggers.items()
        for part in trigger.parts()
        if part.draw is not None and name in part.draw.data
    }


def parts_of_data(workload: Workload) -> dict[str, Part]:
    """By data set, which rows it has, where each policy has rows of its own: those drawn for it."""
    parts, found = workload.actor.parts, {}
    for name in workload.data:
        for role in drawing_from(workload, name) & parts.keys():
            found[name] = parts[role]
    return found


def table_faults(workload: Workload) -> Iterator[str]:
    """Rows of the table that cannot be, where each policy has rows of its own."""
    parts = workload.actor.parts
    for target, trigger in workload.triggers.items():
        role, read, where = target.partition(".")[0], trigger.keys_read(), f"triggers[{target!r}]"
        if role not in parts:
            continue
        for draw in (part.draw for part in trigger.parts() if part.draw is not None):
            read = (*read, *draw.keys)
            for name in draw.data:
                if others := drawing_from(workload, name) - {role}:
                    yield (
                        f"{where}: source: {name!r} is drawn from for {', '.join(sorted(others))}, "
                        "too, and each policy has rows of its own: name the file twice in data, "
                        "once for each"
                    )
            if getattr(draw.pattern, "her", 0):
                yield (
                    f"{where}: her: a game of PettingZoo cannot say what an agent would be paid "
                    "for another goal, as a Gymnasium environment does by compute_reward: leave "
                    "out her, and relabel in the update of a learner of your own"
                )
        if strange := [name for name in read if not name.startswith(f"{role}/")]:
            yield (
                f"{where} has {', '.join(map(repr, strange))}, which are no rows of the {role}'s "
                f"agents: write actor.keys({role!r}), which are {role}/KEY"
            )
