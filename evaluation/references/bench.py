"""``artos bench references``: does it learn as others do, with the same settings?

Runs of at least five seeds on each side. A task holds if the bands of both, from the worst to the
best seed, overlap in each tenth of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.references import figures
from evaluation.references.curves import PARTS, band, overlap
from evaluation.references.tasks import CONTRIB, RLLIB, SAMPLE_FACTORY, SB3, TASKS

SEEDS = 5
QUICK_STEPS = 2_500
FINAL = "mean return in the last tenth"
OVERLAP = "tenths in which the bands overlap"
_DEADLINE_SECONDS = 1_800.0

_SIDES = {
    SB3: ("sb3", "sb3_side"),
    CONTRIB: ("sb3", "sb3_side"),
    RLLIB: ("ray", "rllib_side"),
    SAMPLE_FACTORY: ("sample-factory", "sample_factory_side"),
}
"""The environment of a rival, and the module that runs there."""


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Train every task with ``repeats`` seeds, at least five; ``quick`` only shows that it runs."""
    seeds = 1 if quick else max(repeats, SEEDS)
    results = Results("references", seeds)
    contestants = [each for name in TASKS for each in _contestants(name, results, quick, say)]
    alternate(results, contestants, seeds, say)
    for name, task in TASKS.items():
        mine, theirs = (results.kept.get(who(name, s), []) for s in (OURS, task.rival))
        for side, curves in ((OURS, mine), (task.rival, theirs)):
            if curves:
                results.followed(who(name, side), band(curves))
        case = f"{OVERLAP}: {name}"
        if mine and theirs:
            results.add(case, "share", overlap(mine, theirs))
            results.require(case, 1.0, "at least")
        else:
            results.absent(case, "share", "one of the two has no curves")
    return results


BENCHMARK = Benchmark(measure, MEMBERS, figures.draw_all)


def who(task: str, library: str) -> str:
    """A contestant's name."""
    return f"{library}, {task}"


def _contestants(name: str, results: Results, quick: bool, say: Say) -> Iterator[Contestant]:
    task = TASKS[name]
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
    their_run = partial(baseline, where, f"references.{module}", name)
    yield trained(OURS, our_run)
    yield trained(task.rival, lambda seed: their_run(seed, steps, seconds=seconds, say=say))
