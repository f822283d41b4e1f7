"""Start-up and total time of a short run, next to a Stable-Baselines3 script; the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, POOL, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours

STEPS = 2_048
"""Two updates of eight environments with 128 steps each."""
FIRST_RUN, FIRST_STEPS = "CartPole-v1, 500,000 steps as by `make run`", 500_000
UNIT = "s"
SB3 = {1: "Stable-Baselines3, 1 thread", 2: "Stable-Baselines3, 2 threads"}
"""By the number of its threads; the faster one counts."""
BARE = {
    "cartpole": 'python -c "import torch, gymnasium"',
    "pong": 'python -c "import torch, gymnasium, ale_py"',
}
WHOLE_GOAL, FIRST_GOAL = 1.2, 1.4
_DEADLINE_SECONDS = 300.0
_GAMES = {"cartpole": "CartPole-v1", "pong": "PongNoFrameskip-v4"}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure the environments in turn; ``quick`` measures only the small one."""
    games = ("cartpole",) if quick else tuple(_GAMES)
    results = Results("startup", repeats)
    contestants = [] if quick else [_first_run()]
    contestants += [c for game in games for c in _contestants(game, say)]
    alternate(results, contestants, repeats, say)
    for game in games:
        whole, first = _whole(game, OURS), _first(game, OURS)
        soonest = results.lowest([_whole(game, who) for who in SB3.values()])
        results.compare(whole, soonest, WHOLE_GOAL, "at most")
        results.compare(first, _first(game, BARE[game]), FIRST_GOAL, "at most")
        soonest = results.lowest([_first(game, who) for who in SB3.values()])
        results.compare(first, soonest, None, "at most")
    return results


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *POOL, "deploy/cli", "deploy/local", "evaluation/throughput")
)


def _first_run() -> Contestant:
    cases = {
        "all_s": (f"{FIRST_RUN}, command to prompt: {OURS}", UNIT),
        "return": (f"{FIRST_RUN}, mean of the last 100 returns: {OURS}", ""),
    }
    return Contestant(f"{OURS}, first run", cases, _ours("CartPole-v1", FIRST_STEPS))


def _ours(env: str, steps: int) -> Callable[[], Answer]:
    arguments = ("run", "ppo", "--env", env, "--actors", "2", "--total-steps", str(steps))
    return ours("startup.artos_side", *arguments, seconds=_DEADLINE_SECONDS)


def _contestants(game: str, say: Say) -> Iterator[Contestant]:
    env = _GAMES[game]
    cases = {
        "all_s": (_whole(game, OURS), UNIT),
        "first_s": (_first(game, OURS), UNIT),
        "bare_s": (_first(game, BARE[game]), UNIT),
    }
    yield Contestant(f"{OURS}, {game}", cases, _ours(env, STEPS))
    for threads, who in SB3.items():
        theirs = baseline(
            "sb3", "startup.sb3_side",
            "--env", game, "--steps", str(STEPS), "--threads", str(threads),
            seconds=_DEADLINE_SECONDS, say=say, environment=heap.ENVIRONMENT,
        )  # fmt: skip
        sb3 = {"all_s": (_whole(game, who), UNIT), "first_s": (_first(game, who), UNIT)}
        yield Contestant(f"{who}, {game}", sb3, theirs)


def _whole(game: str, who: str) -> str:
    return f"{_GAMES[game]}, {STEPS:,} steps, command to prompt: {who}"


def _first(game: str, who: str) -> str:
    return f"{_GAMES[game]}, command to first step: {who}"
