"""The learner is what all wait for."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import DEVICE
from triggers.algorithms import BUILT_IN

_MOST = 4
"""Most processes that are advised."""
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
    learners = int(run.cpus // threads) if run.learner_computes else _MOST
    if learners <= now:
        return None
    figure = (
        f"{run.learning:.0%} of the time the learner learns: an update takes {run.update:.3g} s, "
        f"a round {run.round:.3g} s"
    )
    gain = without(run.learning * (1 - now / learners))
    divides = now > 1 or run.algorithm in BUILT_IN
    advice = f"{'' if divides else _FIRST}--set learners={learners}"
    return Finding("learner", gain, figure, (advice,), costs=True)
