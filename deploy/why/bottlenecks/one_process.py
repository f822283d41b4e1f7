"""Members that could work side by side take turns in one process."""

from __future__ import annotations

from deploy.why.evidence import Evidence
from deploy.why.finding import Finding

_HAND_OVERS = 0.005
"""Seconds an update for which processes hand work over to each other, with two on two CPUs."""


def look(run: Evidence) -> Finding | None:
    """Processes of their own, as many actors as there are CPUs, where handing over costs less."""
    if not (run.history.inline and run.updates and run.seconds > 0):
        return None
    more = run.to_set("actors", run.cpus) if run.actors < run.cpus else ""
    actors = run.cpus if more else run.actors
    sampling = run.sampling / min(actors, run.cpus)
    over = _HAND_OVERS * len(run.updates) / run.seconds
    figure = (
        f"{run.sampling:.0%} of the time one actor after another samples, {run.learning:.0%} of it "
        f"the learner learns, in one process that has one of {run.cpus} CPUs: a round takes "
        f"{run.round:.3g} s, an update {run.update:.3g} s"
    )
    advice = "leave out --inline"
    if more:
        advice = f"{advice}, with {more.replace('--set actors=', '--actors ')}"
    gain = 1 / (1 - run.sampling + sampling + over)
    return Finding("one process", gain, figure, (advice,), costs=True)
