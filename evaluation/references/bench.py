"""``artos bench references``: does it learn as others do, with the same settings?

Runs of at least five seeds on each side. A task holds if in each tenth of the steps the bands, from
the worst to the best seed, overlap or ours lies above, and if the means of whole curves, beyond the
lowest return, are at least 0.9 of theirs: bands alone would be wider with seeds that fail. A task
that has a bar, and may have fewer seeds, holds if ours is there in no more than 1.25 of the steps
of theirs, infinitely many if ours never is, and those of the whole run if theirs never is. Ratios
are medians over seeds. There is no verdict if a side has fewer seeds than it should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.references import figures
from evaluation.references.curves import PARTS, Curve, band, gained, kept_up, reached
from evaluation.references.task import (
    CONTRIB,
    EVOSAX,
    FINAL,
    RLLIB,
    SAMPLE_FACTORY,
    SB3,
    TIANSHOU,
    Task,
    who,
)
from evaluation.references.tasks import TASKS

SEEDS = 5
QUICK_STEPS = 2_500
ABREAST = "tenths in which bands overlap or ours is above"
HEIGHT = "mean of the whole curve, ours over theirs"
BAR = "steps until a mean return of"
SLOWER = "steps to the bar, ours over theirs"
_MOST, _LEAST = 1.25, 0.9
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
        abreast, height, slower = (f"{each}: {name}" for each in (ABREAST, HEIGHT, SLOWER))
        if task.bar is None:
            results.require(abreast, 1.0, "at least")
            results.require(height, _LEAST, "at least")
        else:
            results.require(slower, _MOST, "at most")
        if mine and theirs:
            results.add(abreast, "share", kept_up(mine, theirs))
            for pair in zip(mine, theirs, strict=False):
                one, other = (gained(curve, task.low) for curve in pair)
                results.add(height, "ratio", one / other)
        notes = []
        if (fewest := min(len(mine), len(theirs))) < seeds:
            notes.append(f"one of the two has {fewest} of {seeds} curves")
            judged = {abreast: "share", height: "ratio"} if task.bar is None else {slower: "ratio"}
            for case, unit in judged.items():
                results.missed(case, unit, notes[0])
        if task.bar is None or not mine or not theirs:
            continue
        steps = _steps(task, quick)
        ours_at = _reached(results, who(name, OURS), mine, task.bar, steps)
        theirs_at = _reached(results, who(name, task.rival), theirs, task.bar, steps)
        for one, other in zip(ours_at, theirs_at, strict=False):
            results.add(slower, "ratio", one / min(other, steps))
        if never := ours_at.count(math.inf):
            notes.append(f"infinite with {never} of {len(ours_at)} seeds of ours")
            results.remark(slower, "; ".join(notes))
    return results


def _contestants(
    name: str, task: Task, results: Results, quick: bool, say: Say
) -> Iterator[Contestant]:
    steps = str(_steps(task, quick))
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


def _steps(task: Task, quick: bool) -> int:
    return QUICK_STEPS if quick else task.steps


def _reached(
    results: Results, side: str, curves: Sequence[Curve], bar: float, steps: int
) -> list[float]:
    case, found = f"{BAR} {bar:g}: {side}", [reached(curve, bar, steps) for curve in curves]
    for value in found:
        results.add(case, "steps", value)
    if never := found.count(math.inf):
        results.remark(case, f"not reached by {never} of {len(found)} seeds")
    return found


BENCHMARK = of("references", TASKS)
