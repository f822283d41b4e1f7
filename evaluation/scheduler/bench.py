"""Decisions a second by number of actors, and the time of a head's turn by number of runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from evaluation.core.benchmark import POOL, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate
from evaluation.scheduler import heads
from evaluation.scheduler.deciders import fair, least_held, microseconds, priority_queue

ACTORS = (10, 100, 1_000, 10_000)
FEW = 4
RATE, TIME = "decisions/s", "µs"
GOAL = 20_000
"""Fewest decisions a second."""
GROWTH_GOAL = 4.0
"""Most by which a decision may take longer with 10,000 actors than with 10: log 10,000 / log 10."""
WHOLE = "one file"

Make = Callable[[], Callable[[], None]]
MakeHead = Callable[[int], AbstractContextManager[Callable[[], None]]]


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure every queue with every number of actors in turn; ``quick`` only shows that it runs.

    Actors are of four workloads, or each is of a workload of its own. The rivals are what one would
    write without a library: ``heapq``, which knows priorities and nothing else, and ``min`` over
    workloads, which is fair and looks at all of them. A head's turn is a decision and its save, in
    seconds of the wall, as disks wait; its rival saves all that a head knows with every event.
    """
    counts, seconds = ((10, 100), 0.02) if quick else (ACTORS, 1.0)
    results = Results("scheduler", repeats)
    contestants = [each for actors in counts for each in _contestants(actors, seconds)]
    contestants += [each for runs in counts for each in _heads(runs, seconds)]
    alternate(results, contestants, repeats, say)
    for actors in counts:
        for workloads in ("4 workloads", "a workload each"):
            results.require(_case(RATE, actors, workloads, OURS), GOAL, "at least")
        ours, heap = (_case(RATE, actors, "4 workloads", who) for who in (OURS, "heapq"))
        results.compare(ours, heap)
        own, linear = (_case(RATE, actors, "a workload each", who) for who in (OURS, "min"))
        results.compare(own, linear)
    for workloads in ("4 workloads", "a workload each"):
        few, many = (_case(TIME, actors, workloads, OURS) for actors in (counts[0], counts[-1]))
        results.compare(many, few, GROWTH_GOAL, "at most")
    for runs in counts:
        results.compare(_turn(runs, OURS), _turn(runs, WHOLE))
    results.compare(_turn(counts[-1], OURS), _turn(counts[0], OURS), GROWTH_GOAL, "at most")
    return results


BENCHMARK = Benchmark(measure, (*POOL, "head/daemon"))


def _contestants(actors: int, seconds: float) -> list[Contestant]:
    makes: dict[tuple[str, str], Make] = {
        ("4 workloads", OURS): partial(fair, actors, FEW),
        ("4 workloads", "heapq"): partial(priority_queue, actors),
        ("4 workloads", "min"): partial(least_held, actors, FEW),
        ("a workload each", OURS): partial(fair, actors, actors),
        ("a workload each", "min"): partial(least_held, actors, actors),
    }
    return [
        Contestant(
            f"{who}, {actors} actors, {workloads}",
            {unit: (_case(unit, actors, workloads, who), unit) for unit in (RATE, TIME)},
            partial(_answer, make, seconds),
        )
        for (workloads, who), make in makes.items()
    ]


def _heads(runs: int, seconds: float) -> list[Contestant]:
    heads_of: dict[str, MakeHead] = {OURS: heads.rows, WHOLE: heads.one_file}
    return [
        Contestant(
            f"{who}, the head's turn, {runs} runs",
            {TIME: (_turn(runs, who), TIME)},
            partial(_answer_turn, make, runs, seconds),
        )
        for who, make in heads_of.items()
    ]


def _answer_turn(make: MakeHead, runs: int, seconds: float) -> Answer:
    with make(runs) as turn:
        return Answer({TIME: microseconds(turn, seconds, time.perf_counter)}, {})


def _turn(runs: int, who: str) -> str:
    return f"the head's turn, {runs:,} runs: {who}"


def _answer(make: Make, seconds: float) -> Answer:
    taken = microseconds(make(), seconds)
    return Answer({RATE: 1e6 / taken, TIME: taken}, {})


def _case(unit: str, actors: int, workloads: str, who: str) -> str:
    what = "decisions" if unit == RATE else "time of one"
    return f"{what}, {actors:,} actors, {workloads}: {who}"
