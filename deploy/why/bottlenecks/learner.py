"""The learner is what all wait for."""

from __future__ import annotations

from math import ceil

from deploy.why.bottlenecks.capacity import most_gain
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import DEVICE
from triggers.algorithms import BUILT_IN

WAIT = 0.002
"""Seconds that several learners wait for each other to add up their gradients. On CPUs that nobody
else uses it is 0.3 ms, but the run itself and its actors use some of the same."""
_MOST, _ENOUGH = 4, 0.9
"""Most processes that are advised if they do not compute, and the share of what they would gain
that fewer must gain."""
_A_LITTLE = 0.1
_APART = ("gather", "publish")
"""What each of several learners does with all rows, or one of them for all."""
_FIRST = (
    "if the learner is your own, first divide its batches and set replicable = True "
    "(docs/how-to/replicas.md): "
)
"""Without it several processes are refused, and no record of a run says whether it is set."""


def waits(run: Evidence) -> float:
    """How often several learners wait for each other in an update.

    They do at each step of the optimiser, for what is recorded, and at the end.
    """
    steps = 1.0 if run.replays else run.number("epochs", 1.0) * run.number("minibatches", 1.0)
    return steps + run.number("conjugate_steps", 0.0) + 2


def look(run: Evidence) -> Finding | None:
    """Several processes make each update together, as many as there are CPUs if they compute."""
    now, threads = run.number("learners", 1.0), max(1.0, run.number("threads", 0.0))
    if run.replays or threads > run.cpus or run.share(DEVICE) > 0:
        return None  # a ratio says how much it learns; threads or devices are what is scarce
    if not isinstance(run.settings.get("learners", 1), int):
        return None  # several of them, each with a number of its own
    threads = max(threads, ceil(run.learner_cpu - _A_LITTLE))
    most = int(run.cpus // threads) if run.learner_computes else _MOST
    apart = sum(s for charge, s in run.chain.items() if charge.kind in _APART)
    divided = run.learning - apart / (run.seconds or 1.0)
    if run.learner_computes and run.learner_cpu:  # more of them do not get more CPUs
        divided *= min(1.0, run.learner_cpu)
    lost = run.learning * waits(run) * WAIT / (run.update or 1.0) if now == 1 else 0.0

    def gain(learners: int) -> float:
        return min(most_gain(run), without(divided * (1 - now / learners) - lost))

    if most <= now or gain(most) <= 1:
        return None
    numbers = range(int(now) + 1, most + 1)
    learners = next(n for n in numbers if gain(n) - 1 >= _ENOUGH * (gain(most) - 1))
    figure = (
        f"{run.learning:.0%} of the time the learner learns: an update takes {run.update:.3g} s, "
        f"a round {run.round:.3g} s"
    )
    divides = now > 1 or run.algorithm in BUILT_IN
    advice = f"{'' if divides else _FIRST}--set learners={learners}"
    return Finding("learner", gain(learners), figure, (advice,), costs=True)
