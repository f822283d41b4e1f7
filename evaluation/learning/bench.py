"""Does learning suffer if minibatches of the first epoch consist of the rows that arrived first?

Compares the minibatch pipeline in its least mixed form, one actor's rows per minibatch, with the
uniform shuffle over all rows. The repetitions are seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, ours

SEEDS = 5
UNIT = "share of the best return"
GOALS = {"final": 0.95, "whole": 0.95}
"""Least ratio, as the median over seeds, of each score with the pipeline to that without."""
PLAIN, EARLY = "none", "minibatch"
_ACTORS = 4
_DEADLINE_SECONDS = 1800.0


@dataclass(frozen=True)
class Task:
    """A task: its environment, the steps to learn it in, and its lowest and highest return."""

    name: str
    env: str
    steps: int
    low: float
    high: float


TASKS = (
    Task("CartPole-v1", "CartPole-v1", 200_000, 0.0, 500.0),
    Task("Catch, Nature network", "evaluation.workloads.catch:make", 60_000, -10.0, 10.0),
)
QUICK_STEPS = 4_096


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Train on every task with ``repeats`` seeds; ``quick`` only shows that it runs.

    Runs that are compared have the same seed.
    """
    results = Results("learning", repeats)
    contestants = [c for task in TASKS for c in _contestants(task, results, quick)]
    alternate(results, contestants, repeats, say)
    for task in TASKS:
        for score, goal in GOALS.items():
            results.compare(_case(task, score, EARLY), _case(task, score, PLAIN), goal)
    return results


BENCHMARK = Benchmark(measure, MEMBERS, least=SEEDS)


def _contestants(task: Task, results: Results, quick: bool) -> Iterator[Contestant]:
    for pipeline in (PLAIN, EARLY):
        cases = {score: (_case(task, score, pipeline), UNIT) for score in GOALS}
        call = _training(task, pipeline, results, QUICK_STEPS if quick else task.steps)
        yield Contestant(f"{task.name}, pipeline={pipeline}", cases, call)


def _training(task: Task, pipeline: str, results: Results, steps: int) -> Callable[[], Answer]:
    """A function that trains with the number of the repetition as its seed."""

    def train() -> Answer:
        return ours(
            "learning.artos_side", str(task.low), str(task.high), "run", "ppo", "--env", task.env,
            "--actors", str(_ACTORS), "--total-steps", str(steps),
            "--seed", str(results.repetition), "--set", f"pipeline={pipeline}",
            "--set", f"minibatches={_ACTORS}",
            seconds=_DEADLINE_SECONDS,
        )()  # fmt: skip

    return train


def _case(task: Task, score: str, pipeline: str) -> str:
    return f"{task.name}, {score} score: {OURS}, pipeline={pipeline}"
