"""Actors and learner take turns, as no row may be older than the newest version."""

from __future__ import annotations

from deploy.why.bottlenecks.straggler import excess
from deploy.why.evidence import Evidence
from deploy.why.finding import Finding


def look(run: Evidence) -> Finding | None:
    """With rows that may be a version old, the longer of both is all that takes time."""
    advice = run.to_set("max_lag", 1, "DataKeyTrigger")
    if not run.in_turn or not advice:
        return None
    sampling, learning = run.sampling - excess(run), run.learning
    rest = 1 - sampling - learning
    if run.actors_compute and run.learner_computes:  # all on the same CPUs
        of_all = sampling * min(run.actors, run.cpus) + learning * max(1.0, run.learner_cpu)
        together = max(sampling, learning, of_all / run.cpus)
    else:
        together = max(sampling, learning)
    gain = 1 / max(0.01, together + rest)
    figure = (
        f"{sampling:.0%} of the time actors sample while the learner waits, {learning:.0%} of it "
        "the learner learns while actors wait"
    )
    return Finding("lag gate", gain, figure, (advice,))
