"""So little is done at a time that asking for it takes longer."""

from __future__ import annotations

from deploy.tracing.events import HAND_OVER
from deploy.why.bottlenecks.busy_machine import MUCH
from deploy.why.evidence import Evidence, doubled, without
from deploy.why.finding import Finding

_LITTLE, _MOST = 0.05, 1024.0
"""The share of the time that hand-overs may take, and how much more is done at a time at most."""
_PER_STEP, _BIND = ("environment", "inference"), "bind"
"""What of a round takes longer the more steps it has, and what never does. If the rest is more than
its steps it is work of the actor's own, maybe for each of them."""
_ROWS, _SECONDS = 64, 0.003
"""A step of an optimiser on fewer rows that takes less costs what an empty one costs."""


def look(run: Evidence) -> Finding | None:
    """More rows at a time cost the same hand-over, or the same step of the optimiser."""
    found = [each for each in (_rounds(run), _steps_of_optimiser(run)) if each]
    return max(found, key=lambda each: each.gain, default=None)


def _rounds(run: Evidence) -> Finding | None:
    over = run.share(HAND_OVER)
    if over <= _LITTLE or run.queued >= MUCH:
        return None
    work = run.sampling + run.learning
    steps = run.share(*_PER_STEP)
    grows = max(steps, run.sampling - run.share(_BIND) - steps)
    rows, _ = _step_of_optimiser(run)
    costs_the_same = not run.replays and _costs_what_an_empty_one_does(run)
    grows += run.learning * (rows / _ROWS if costs_the_same else 1.0)
    fixed = over + work - grows
    times = doubled(min(_MOST, fixed / max(grows, 1e-9) / _LITTLE))
    figure = (
        f"{over:.0%} of the time work is handed over: a round of {run.steps * run.envs:,} steps "
        f"takes {1e3 * run.round:.3g} ms, an update {1e3 * run.update:.3g} ms"
    )
    gain = without(fixed * (1 - 1 / times))
    return Finding("small batch", gain, figure, (run.to_set("steps", run.steps * times),))


def _step_of_optimiser(run: Evidence) -> tuple[float, float]:
    """The rows that each takes, and its seconds."""
    if run.replays:
        return run.number("batch", _ROWS), run.update
    parts = run.number("minibatches", 1.0)
    rows = run.actors * run.envs * run.steps / parts
    return rows, run.update / (run.number("epochs", 1.0) * parts)


def _costs_what_an_empty_one_does(run: Evidence) -> bool:
    rows, seconds = _step_of_optimiser(run)
    return rows < _ROWS and seconds <= _SECONDS


def _steps_of_optimiser(run: Evidence) -> Finding | None:
    if not _costs_what_an_empty_one_does(run):
        return None
    rows, seconds = _step_of_optimiser(run)
    times = doubled(_ROWS / rows)
    figure = (
        f"{run.learning:.0%} of the time the learner learns: a step of its optimiser takes "
        f"{1e3 * seconds:.2g} ms for {rows:,.0f} rows, about what it takes for {_ROWS}"
    )
    advice = run.to_set("steps", run.steps * times)
    if run.replays:
        ratio = (run.fields("ReplayTrigger") or {}).get("ratio")
        ratio = ratio if isinstance(ratio, int | float) else rows
        same = run.to_set("ratio", f"{ratio:g}", "ReplayTrigger")
        advice = f"--set batch={rows * times:.0f} {same}"
    gain = without(run.learning * (1 - 1 / times))
    return Finding("small batch", gain, figure, (advice,))
