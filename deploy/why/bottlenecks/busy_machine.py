"""Others have the CPUs: whoever is to go on waits for one first."""

from __future__ import annotations

from deploy.tracing.events import HAND_OVER
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding

MUCH = 0.1
"""Share of the time for which the run's loop may wait for a CPU."""


def look(run: Evidence) -> Finding | None:
    """Hand-overs take long because nobody gets a CPU, not because there are many."""
    over = run.share(HAND_OVER)
    if run.queued < MUCH or over <= 0:
        return None
    figure = (
        f"{run.queued:.0%} of the time the run itself waits for one of the {run.cpus} CPUs, and "
        f"{over:.0%} of it goes by until those begin who have something to do"
    )
    advice = ("fewer actors or runs on this machine, or another machine",)
    return Finding("busy machine", without(over), figure, advice)
