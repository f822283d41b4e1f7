"""So little is done at a time that asking for it takes longer."""

from __future__ import annotations

from deploy.why.bottlenecks.busy_machine import MUCH
from deploy.why.evidence import Evidence, doubled, without
from deploy.why.finding import Finding
from deploy.why.history import HAND_OVER

_LITTLE, _MOST = 0.05, 256.0
"""The share of the time that hand-overs may take, and how much more is done at a time at most."""
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
    times = doubled(min(_MOST, over / (1 - over) / _LITTLE))
    steps = run.steps * times
    figure = (
        f"{over:.0%} of the time work is handed over: a round of {run.steps * run.envs:,} steps "
        f"takes {1e3 * run.round:.3g} ms, an update {1e3 * run.update:.3g} ms"
    )
    gain = without(over * (1 - 1 / times))
    return Finding("small batch", gain, figure, (f"--set steps={steps}",))


def _steps_of_optimiser(run: Evidence) -> Finding | None:
    if run.replays:
        rows, count = run.number("batch", _ROWS), 1.0
    else:
        parts = run.number("minibatches", 1.0)
        rows = run.actors * run.envs * run.steps / parts
        count = run.number("epochs", 1.0) * parts
    seconds = run.update / count
    if rows >= _ROWS or seconds > _SECONDS:
        return None
    times = doubled(_ROWS / rows)
    figure = (
        f"{run.learning:.0%} of the time the learner learns: a step of its optimiser takes "
        f"{1e3 * seconds:.2g} ms for {rows:,.0f} rows, about what it takes for {_ROWS}"
    )
    advice = f"--set steps={run.steps * times}"
    if run.replays:
        ratio = (run.fields("ReplayTrigger") or {}).get("ratio", rows)
        advice = f"--set batch={rows * times:.0f} --set ratio={ratio:g}"
    gain = without(run.learning * (1 - 1 / times))
    return Finding("small batch", gain, figure, (advice,))
