"""The learner has more threads than the machine has CPUs, and they wait for each other."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding


def look(run: Evidence) -> Finding | None:
    """As many threads as are free: all, if actors wait while it learns."""
    learners = run.number("learners", 1.0)
    threads = run.number("threads", 0.0) * learners
    if threads <= run.cpus:
        return None
    wasted = run.learning * (1 - run.cpus / threads)
    figure = (
        f"{run.learning:.0%} of the time the learner learns, with {threads:.0f} threads on "
        f"{run.cpus} CPUs, of which it uses {run.learner_cpu:.2g}"
    )
    free = max(1, int(run.cpus // learners)) if run.in_turn else 0
    return Finding("too many threads", without(wasted), figure, (f"--set threads={free}",))
