"""``artos bench tokens``: does GRPO learn as it does in one file and one process?

Both write six digits backwards, until nine of ten texts of a batch are right in full. What counts
are the updates until then, not their time, for rows that are 0, up to 1 and up to 4 versions old. A
run that does not get there has no figure, and so its goal is missed.

Network, batch, optimiser, loss, task and pay are the same. What is not: random numbers, so seeds
are no pairs; and that rows of the reference are as old as said from its fifth update at the latest,
those of ours as old as that at most, by who is faster. How old they were is told, of ours in all
updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from evaluation.baselines.one_file_grpo import LAG, REACHED
from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, ours

LAGS = (0, 1, 4)
SEEDS, MOST, QUICK_MOST = 5, 150, 3
"""Runs of each side at least, and updates of each at most."""
GOAL = 1.25
REFERENCE = "one file"
SIDES = {OURS: "tokens.artos_side", REFERENCE: "baselines.one_file_grpo"}
_DEADLINE_SECONDS = 900.0


def of(name: str, lags: Sequence[int]) -> Benchmark:
    """The benchmark of these lags; any of them may be chosen."""
    several = lags if len(lags) > 1 else ()
    parts = {task(lag): of(f"{name}, {task(lag)}", (lag,)) for lag in several}
    measures = (*MEMBERS, "evaluation/baselines/one_file_grpo.py")
    return Benchmark(partial(measure, name, lags), measures, parts=parts, least=SEEDS)


def measure(
    called: str, lags: Sequence[int], repeats: int, quick: bool, say: Say = print
) -> Results:
    """Train with ``repeats`` seeds; ``quick`` only shows that it runs."""
    results = Results(called, repeats)
    most = QUICK_MOST if quick else MOST
    contestants = [each for lag in lags for each in _contestants(lag, results, most)]
    alternate(results, contestants, repeats, say)
    for lag in lags:
        mine, theirs = (updates(lag, side) for side in SIDES)
        results.compare(mine, theirs, GOAL, "at most")
    return results


def task(lag: int) -> str:
    """What is learned."""
    return f"GRPO, six digits reversed, lag {lag}"


def updates(lag: int, side: str) -> str:
    """The case of a side's updates."""
    return f"updates until nine of ten are right, {task(lag)}: {side}"


def _contestants(lag: int, results: Results, most: int) -> Iterator[Contestant]:
    def trained(module: str) -> Answer:
        words = ("--lag", str(lag), "--seed", str(results.repetition), "--most", str(most))
        return ours(module, *words, seconds=_DEADLINE_SECONDS)()

    for side, module in SIDES.items():
        old = f"versions that rows were old, {task(lag)}: {side}"
        cases = {REACHED: (updates(lag, side), "updates"), LAG: (old, "versions, mean")}
        yield Contestant(f"{side}, {task(lag)}", cases, partial(trained, module))


BENCHMARK = of("tokens", LAGS)
