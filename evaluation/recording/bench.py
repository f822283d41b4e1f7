"""What it costs to record all that an exact replay needs: time of the learner, and room."""

from __future__ import annotations

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, ours

SHARE_GOAL, ROOM_GOAL = 1.0, 1.0
"""Percent of the learner's time, and MB a minute, at most."""
_DEADLINE_SECONDS = 300.0
CASES = {
    "PPO, CartPole-v1": ("ppo", "--env", "CartPole-v1", "--set", "max_lag=1"),
    "PPO, Pong": ("ppo", "--env", "PongNoFrameskip-v4", "--set", "max_lag=1"),
    "IMPALA, CartPole-v1": ("impala", "--env", "CartPole-v1"),
    "DQN, CartPole-v1": ("dqn", "--env", "CartPole-v1"),
    "SAC, Pendulum-v1": ("sac", "--env", "Pendulum-v1"),
}
STEPS = {"ppo": 200_000, "impala": 200_000, "dqn": 20_000, "sac": 3_000}
PONG_STEPS = 20_000


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure each algorithm; ``quick`` measures the first one, briefly."""
    results = Results("recording", repeats)
    cases = dict([*CASES.items()][:1]) if quick else CASES
    contestants = []
    for name, (algorithm, *words) in cases.items():
        steps = PONG_STEPS if "Pong" in name else STEPS[algorithm]
        budget = ("--actors", "2", "--total-steps", str(2_000 if quick else steps))
        call = ours("recording.artos_side", algorithm, *words, *budget, seconds=_DEADLINE_SECONDS)
        answers = {"share_percent": (_share(name), "%"), "mb_per_minute": (_room(name), "MB/min")}
        contestants.append(Contestant(f"{OURS}, {name}", answers, call))
    alternate(results, contestants, repeats, say)
    for name in cases:
        results.require(_share(name), SHARE_GOAL)
        results.require(_room(name), ROOM_GOAL)
    return results


BENCHMARK = Benchmark(
    measure, (*MEMBERS, "artos/runs/tape.py", "evaluation/exactness", "triggers/journal.py")
)


def _share(name: str) -> str:
    return f"learner's time that recording takes, {name}: {OURS}"


def _room(name: str) -> str:
    return f"what a replay needs, {name}: {OURS}"
