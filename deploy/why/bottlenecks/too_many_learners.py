"""Several processes make each update, and wait for each other longer than one would compute."""

from __future__ import annotations

from deploy.why.bottlenecks.learner import WAIT, waits
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding

_LONG = 0.005
"""Seconds that a wait may take where others use the same CPUs; who waits longer does so for
something else."""
_LEAST = 1 / 3
"""Of the time that several take: a single learner with a small network takes no less."""


def look(run: Evidence) -> Finding | None:
    """One makes it alone."""
    now = run.number("learners", 1.0)
    if now <= 1 or not run.updates or run.settings.get("device", "cpu") != "cpu":
        return None
    each = run.update / waits(run)
    idle = each * (1 - min(1.0, run.learner_cpu)) if run.learner_cpu else 0.0
    waited = max(WAIT, min(_LONG, idle))
    alone = max(_LEAST * each, now * (each - waited))
    if alone >= each:
        return None
    figure = (
        f"{run.learning:.0%} of the time {now:.0f} learners learn, which wait for each other "
        f"{waits(run):.0f} times an update: each time they learn for {1e3 * each:.2g} ms and wait "
        f"for about {1e3 * min(waited, each):.2g} ms of it"
    )
    gain = without(run.learning * (1 - alone / each))
    return Finding("too many learners", gain, figure, ("--set learners=1",))
