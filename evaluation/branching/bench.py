"""``artos bench branching``: what a continuation of a live actor's episode costs."""

from __future__ import annotations

from evaluation.core.benchmark import ELASTIC, MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, ours

FORK, CLONE = "fork", "clone"
ENVIRONMENTS = {FORK: "evaluation.branching.pong:make", CLONE: "PongNoFrameskip-v4"}
"""By how an actor of it is continued: the emulators of the second one have threads."""
GOALS = {FORK: 10.0, CLONE: 120.0}
"""Milliseconds until there is a process, at most."""
ROOM_GOAL = 2.0
"""MB of private memory of one that was forked, at most."""
TIMES = 16
_DEADLINE_SECONDS = 300.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Branch a run of PPO on Pong each way; ``quick`` forks a few."""
    results = Results("branching", repeats)
    chosen = [FORK] if quick else [FORK, CLONE]
    contestants = []
    for way in chosen:
        times = str(2 if quick else TIMES)
        call = ours(
            "branching.artos_side", ENVIRONMENTS[way], way, times, seconds=_DEADLINE_SECONDS
        )
        answers = {"made": (_made(way), "ms"), "first": (_first(way), "ms")}
        if way == FORK:
            answers |= {"private": (_PRIVATE, "MB"), "all": (_ALL, "MB")}
        contestants.append(Contestant(f"{OURS}, by {way}", answers, call))
    alternate(results, contestants, repeats, say)
    for way in chosen:
        results.require(_made(way), GOALS[way])
    results.require(_PRIVATE, ROOM_GOAL)
    return results


_PRIVATE = f"private memory of a continuation at its largest, by {FORK}, median: {OURS}"
_ALL = f"private memory of all that live at once, by {FORK}, for each continuation: {OURS}"


def _made(way: str) -> str:
    return f"until a continuation's process is there, by {way}, median of {TIMES}: {OURS}"


def _first(way: str) -> str:
    return f"until a continuation's process is there, by {way}, the fastest: {OURS}"


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC, "deploy/local"))
