"""Several processes make each update, and wait for each other longer than one would compute."""

from __future__ import annotations

from artos.specs.devices import CPU
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding

WAIT = 0.002
"""Seconds that several learners wait for each other to add up their gradients. On CPUs that nobody
else uses it is 0.3 ms, but the run itself and its actors use some of the same."""
_LONG = 0.005
"""Seconds that a wait may take where others use the same CPUs; who waits longer does so for
something else."""
_LEAST = 1 / 3
"""Of the time that several take: a single learner with a small network takes no less."""


def waits(run: Evidence) -> float:
    """How often several learners wait for each other in an update.

    They do at each step of the optimiser, for what is recorded, and at the end.
    """
    steps = 1.0 if run.replays else run.number("epochs", 1.0) * run.number("minibatches", 1.0)
    return steps + run.number("conjugate_steps", 0.0) + 2


def on_cpu(run: Evidence) -> bool:
    """Whether the learner computes on CPUs."""
    return bool(run.settings.get("device", CPU) == CPU)


def look(run: Evidence) -> Finding | None:
    """One makes it alone."""
    now = run.number("learners", 1.0)
    if now <= 1 or not run.updates or not on_cpu(run):
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
