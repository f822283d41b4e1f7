"""Trigger latency: from a commit to the invocation in another process, by number of actors.

One actor commits and the others do nothing, or all do and the learner is invoked once for all.
"""

from __future__ import annotations

from evaluation.core.benchmark import Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, ours

ACTORS = (1, 10, 100, 1_000)
UNIT, BARE = "µs", "two bare wake-ups"
ALL, ALL_ROUNDS = (10, 100), 50
LATENCY_GOAL, FLAT_GOAL = 1.5, 1.15
"""Largest ratios of latencies; differences below 1.15 count as equal on a shared machine."""
_DEADLINE_SECONDS = 180.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure every number of actors in turn; ``quick`` only shows that everything runs."""
    counts, rounds = ((1, 10), 20) if quick else (ACTORS, 500)
    results = Results("triggers", repeats)
    contestants = [_contestant(actors, rounds) for actors in counts]
    contestants += [_all(actors, min(rounds, ALL_ROUNDS)) for actors in counts if actors in ALL]
    alternate(results, contestants, repeats, say)
    for actors in counts:
        results.compare(_case(actors, OURS), _case(actors, BARE), LATENCY_GOAL, "at most")
    first, last = _case(counts[0], OURS), _case(counts[-1], OURS)
    results.compare(last, first, FLAT_GOAL, "at most")
    return results


BENCHMARK = Benchmark(measure, ("artos/buffer", "triggers", "head/run/coordination"))


def _contestant(actors: int, rounds: int) -> Contestant:
    cases = {
        "invocation": (_case(actors, OURS), UNIT),
        "bare": (_case(actors, BARE), UNIT),
    }
    arguments = ("--actors", str(actors), "--rounds", str(rounds))
    call = ours("triggers.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
    return Contestant(f"{OURS}, {actors} actors", cases, call)


def _all(actors: int, rounds: int) -> Contestant:
    case = f"first commit to invocation, by all of {actors:,} actors: {OURS}"
    arguments = ("--actors", str(actors), "--rounds", str(rounds), "--all")
    call = ours("triggers.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
    return Contestant(f"{OURS}, all of {actors} actors", {"invocation": (case, UNIT)}, call)


def _case(actors: int, who: str) -> str:
    return f"commit to invocation, by one actor of {actors:,}: {who}"
