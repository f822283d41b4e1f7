"""``artos bench references``: does it learn as others do, with the same settings?

Runs of at least five seeds on each side. A task holds if the bands of both, from the worst to the
best seed, overlap in each tenth of the steps. One that has a bar, which may have fewer seeds, holds
if the median of ours is there in no more than 1.25 of the steps of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from statistics import median

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.references import figures
from evaluation.references.curves import PARTS, Curve, band, overlap, reached
from evaluation.references.task import (
    CONTRIB,
    EVOSAX,
    RLLIB,
    SAMPLE_FACTORY,
    SB3,
    TIANSHOU,
    Task,
)
from evaluation.references.tasks import TASKS

SEEDS = 5
QUICK_STEPS = 2_500
FINAL = "mean return in the last tenth"
OVERLAP = "tenths in which the bands overlap"
BAR = "steps until a mean return of"
SLOWER = "steps to the bar, ours over theirs"
_MOST = 1.25
_DEADLINE_SECONDS = 1_800.0

_SIDES = {
    SB3: ("sb3", "references.sb3_side"),
    CONTRIB: ("sb3", "references.sb3_side"),
    RLLIB: ("ray", "references.rllib_side"),
    SAMPLE_FACTORY: ("sample-factory", "references.sample_factory_side"),
    TIANSHOU: ("tianshou", "catalogue.tianshou_side"),
    EVOSAX: ("evosax", "catalogue.evosax_side"),
}
"""The environment of a rival, and the module that runs there."""


def of(name: str, tasks: Mapping[str, Task], least: int = SEEDS) -> Benchmark:
    """The benchmark of these tasks, with ``least`` seeds or more; any of them may be chosen."""
    several = tasks.items() if len(tasks) > 1 else ()
    parts = {one: of(f"{name}, {one}", {one: task}, least) for one, task in several}
    measures = (*MEMBERS, "evaluation/catalogue", "evaluation/references")
    draw = partial(figures.draw_all, tasks)
    return Benchmark(partial(measure, name, tasks, least), measures, draw, parts)


def measure(
    called: str, tasks: Mapping[str, Task], least: int, repeats: int, quick: bool, say: Say = print
) -> Results:
    """Train every task with ``repeats`` seeds, at least so many; ``quick`` shows that it runs."""
    seeds = 1 if quick else max(repeats, least)
    results = Results(called, seeds)
    contestants = [
        each
        for name, task in tasks.items()
        for each in _contestants(name, task, results, quick, say)
    ]
    alternate(results, contestants, seeds, say)
    for name, task in tasks.items():
        mine, theirs = (results.kept.get(who(name, s), []) for s in (OURS, task.rival))
        for side, curves in ((OURS, mine), (task.rival, theirs)):
            if curves:
                results.followed(who(name, side), band(curves))
        overlaps, slower = f"{OVERLAP}: {name}", f"{SLOWER}: {name}"
        if mine and theirs:
            results.add(overlaps, "share", overlap(mine, theirs))
        if task.bar is not None and mine and theirs:
            medians = [
                median(_reached(results, name, side, curves, task.bar, task.steps))
                for side, curves in ((OURS, mine), (task.rival, theirs))
            ]
            results.add(slower, "ratio", medians[0] / medians[1])
        judged, unit = (overlaps, "share") if task.bar is None else (slower, "ratio")
        if (fewest := min(len(mine), len(theirs))) < seeds:
            results.missed(judged, unit, f"one of the two has {fewest} of {seeds} curves")
        if task.bar is None:
            results.require(judged, 1.0, "at least")
        else:
            results.require(judged, _MOST, "at most")
    return results


def _reached(
    results: Results, name: str, side: str, curves: Iterable[Curve], bar: float, steps: int
) -> list[float]:
    found = [reached(curve, bar, steps) for curve in curves]
    for value in found:
        results.add(f"{BAR} {bar:g}: {who(name, side)}", "steps", value)
    return found


def who(task: str, library: str) -> str:
    """A contestant's name."""
    return f"{library}, {task}"


def _contestants(
    name: str, task: Task, results: Results, quick: bool, say: Say
) -> Iterator[Contestant]:
    steps = str(QUICK_STEPS if quick else task.steps)
    seconds = _DEADLINE_SECONDS

    def trained(side: str, train: Callable[[str], Callable[[], Answer]]) -> Contestant:
        def measured() -> Answer:
            found = train(str(results.repetition))()
            curve = [found.rates[str(part)] for part in range(PARTS)]
            results.kept.setdefault(who(name, side), []).append(curve)
            return Answer({"final": curve[-1]}, found.versions)

        return Contestant(
            who(name, side), {"final": (f"{FINAL}: {who(name, side)}", "return")}, measured
        )

    def our_run(seed: str) -> Callable[[], Answer]:
        return ours("references.artos_side", name, seed, steps, seconds=seconds)

    where, module = _SIDES[task.rival]
    their_run = partial(baseline, where, module, name)
    yield trained(OURS, our_run)
    yield trained(task.rival, lambda seed: their_run(seed, steps, seconds=seconds, say=say))


BENCHMARK = of("references", TASKS)
