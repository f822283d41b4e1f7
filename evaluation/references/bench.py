"""``artos bench references``: does it learn as others do, with the same settings?

Runs of at least five seeds on each side. A task holds if in each tenth of the steps the bands, from
the worst to the best seed, overlap or ours lies above, and if the means of whole curves, beyond the
lowest return and of all seeds, are at least 0.9 of theirs: seeds that fail make a band wider. A
task that has a bar, and may have fewer seeds, holds if ours is there in no more than 1.25 of the
steps of theirs, as the median over seeds: infinitely many if ours never is, and those of the whole
run if theirs never is. There is no verdict if a side has fewer seeds than it should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Bound, Results
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

Goals = Mapping[str, tuple[float, Bound, str]]

SEEDS = 5
QUICK_STEPS = 2_500
ABREAST = "tenths in which bands overlap or ours is above"
HEIGHT = "mean of the whole curves, ours over theirs"
BAR = "steps until a mean return of"
SLOWER = "steps to the bar, ours over theirs"
_BY_CURVES: Goals = {ABREAST: (1.0, "at least", "share"), HEIGHT: (0.9, "at least", "ratio")}
_BY_STEPS: Goals = {SLOWER: (1.25, "at most", "ratio")}
"""What a task without a bar, and one with a bar, are judged by; the last word is the unit."""
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
    """The benchmark of these tasks, with ``least`` seeds by its name; any of them may be chosen."""
    several = tasks.items() if len(tasks) > 1 else ()
    parts = {one: of(f"{name}, {one}", {one: task}, least) for one, task in several}
    measures = (
        *MEMBERS,
        "evaluation/baselines/first_weights.py",
        "evaluation/catalogue",
        "evaluation/references",
    )
    draw = partial(figures.draw_all, tasks)
    return Benchmark(partial(measure, name, tasks), measures, draw, parts, least)


def measure(
    called: str, tasks: Mapping[str, Task], repeats: int, quick: bool, say: Say = print
) -> Results:
    """Train every task with ``repeats`` seeds; ``quick`` only shows that it runs."""
    results = Results(called, repeats)
    contestants = [
        each
        for name, task in tasks.items()
        for each in _contestants(name, task, results, quick, say)
    ]
    alternate(results, contestants, repeats, say)
    for name, task in tasks.items():
        mine, theirs = (results.kept.get(who(name, s), []) for s in (OURS, task.rival))
        for side, curves in ((OURS, mine), (task.rival, theirs)):
            if curves:
                results.followed(who(name, side), band(curves))
        goals = _BY_CURVES if task.bar is None else _BY_STEPS
        for case, (goal, bound, _) in goals.items():
            results.require(f"{case}: {name}", goal, bound)
        if mine and theirs:
            _compare_curves(results, name, task.low, mine, theirs)
        fewest, notes = min(len(mine), len(theirs)), list[str]()
        if fewest < repeats:
            notes.append(f"one of the two has {fewest} of {repeats} curves")
            for case, (_, _, unit) in goals.items():
                results.missed(f"{case}: {name}", unit, notes[0])
        if task.bar is not None and mine and theirs:
            steps, sides = _steps(task, quick), (who(name, OURS), who(name, task.rival))
            at = [_reached(results, side, task.bar, steps) for side in sides]
            _compare_steps(results, f"{SLOWER}: {name}", at, steps, notes)
    return results


def _compare_curves(
    results: Results, name: str, low: float, mine: Sequence[Curve], theirs: Sequence[Curve]
) -> None:
    results.add(f"{ABREAST}: {name}", "share", kept_up(mine, theirs))
    height, (one, other) = f"{HEIGHT}: {name}", (gained(curves, low) for curves in (mine, theirs))
    if other:
        results.add(height, "ratio", one / other)
    else:
        results.missed(height, "ratio", "theirs gained nothing")


def _compare_steps(
    results: Results, case: str, at: Sequence[Sequence[float]], steps: int, notes: list[str]
) -> None:
    for one, other in zip(*at, strict=False):
        results.add(case, "ratio", one / min(other, steps))
    if never := at[0].count(math.inf):
        notes.append(f"infinite with {never} of {len(at[0])} seeds of ours")
        results.remark(case, "; ".join(notes))


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


def _reached(results: Results, side: str, bar: float, steps: int) -> list[float]:
    case, found = f"{BAR} {bar:g}: {side}", [reached(c, bar, steps) for c in results.kept[side]]
    for value in found:
        results.add(case, "steps", value)
    if never := found.count(math.inf):
        results.remark(case, f"not reached by {never} of {len(found)} seeds")
    return found


BENCHMARK = of("references", TASKS)
