"""The learner is what all wait for."""

from __future__ import annotations

from math import ceil

from deploy.why.bottlenecks import too_many_learners
from deploy.why.bottlenecks.capacity import most_gain
from deploy.why.bottlenecks.too_many_learners import WAIT, on_cpu, waits
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import DEVICE
from triggers.algorithms import BUILT_IN

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


def look(run: Evidence) -> Finding | None:
    """Several processes make each update together, as many as there are CPUs if they compute."""
    now, threads = run.number("learners", 1.0), max(1.0, run.number("threads", 0.0))
    if run.replays or threads > run.cpus or run.share(DEVICE) > 0:
        return None  # a ratio says how much it learns; threads or devices are what is scarce
    several = not isinstance(run.settings.get("learners", 1), int)  # each has its own number
    if several or too_many_learners.look(run):
        return None
    # One of ours that uses little of a CPU does not wait for something else: others have the CPUs.
    computes = run.learner_computes or (run.algorithm in BUILT_IN and on_cpu(run))
    threads = max(threads, ceil(run.learner_cpu - _A_LITTLE))
    most = int(run.cpus // threads) if computes else _MOST
    apart = sum(s for charge, s in run.chain.items() if charge.kind in _APART)
    divided = run.learning - apart / (run.seconds or 1.0)
    if computes and run.learner_cpu:  # more of them do not get more CPUs
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
