"""How batches divide into minibatches, also before all of their rows are there."""

from __future__ import annotations

from artos.plan import Plan


def indivisible(plan: Plan, minibatches: int) -> list[str]:
    """Numbers of actors with which minibatches would differ in size, in words."""
    each = plan.envs * plan.steps
    if minibatches < 1 or each < 1:
        return []
    actors = [n for n in plan.at_work.numbers() if n * each % minibatches]
    return [
        f"{n} actors x {plan.envs} envs x {plan.steps} steps = {n * each} rows do not divide into "
        f"{minibatches} minibatches: change minibatches, steps or envs"
        for n in actors[:1]
    ]


def too_early(plan: Plan, minibatches: int) -> list[str]:
    """What a plan's triggers ask for that needs other minibatches, in words."""
    found, actors = [], plan.at_work.most
    if "learner.accumulate" in plan.triggers and minibatches != 1:
        found.append("learner.accumulate adds up one gradient of the full batch: set minibatches=1")
    if "learner.first_pass" not in plan.triggers or minibatches < 1:
        return found
    if plan.at_work.least != actors:
        found.append(
            "learner.first_pass makes minibatches of the rows of some of a fixed number of actors: "
            "give actors as a number"
        )
    elif actors % minibatches and minibatches % actors:
        found.append(
            f"{actors} actors and {minibatches} minibatches: learner.first_pass needs one to be a "
            "multiple of the other"
        )
    return found


def share(plan: Plan, minibatches: int, rows: int) -> int:
    """How many minibatches of the usual size a part of so many rows of a full batch makes."""
    return max(1, round(minibatches * rows / (plan.actors * plan.envs * plan.steps)))
