"""Table 4 and Figure 12: time until a mean return is reached, beside Ray's core; seeds 1, 2, 3.

PPO on Pong and Breakout has the sizes of CleanRL (eight games, 128 steps, four epochs of four
minibatches), four actors of two games; the bars are what two cores reach within an hour, far below
what the paper trains to. SAC takes about 0.1 s for an update of 64 pictures here, so that no game
of Atari is learned in an hour: its time to a bar is that of Catch with the same network, and on
Pong and Breakout stands what the paper's difference comes from, the time of an update.

Both clocks begin with the command; Ray's stands still while its cluster starts. A run that does not
reach its bar counts with the limit, which is said beside it; CPU and device are those until the
bar, of the runs that reached it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, POOL, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Report, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.paper import curves
from evaluation.paper.figures import against_the_clock
from evaluation.paper.said import TABLE_4, beside

RAY = "Ray"
TIME, UPDATE, BEST = "time to a mean return of {bar:g}", "an update", "highest mean return"
COSTS = {
    "held_cpu_s": "CPU held by actors", "used_cpu_s": "CPU used by actors",
    "held_device_s": "device held by the learner",
}  # fmt: skip
LONGEST, SHORT, LOW = 3_600.0, 20.0, -100.0
"""Seconds of a run at most, those of a quick one, and its bar, which any policy reaches."""
_GRACE = 300.0
_STEPS = 10_000_000
"""Those that step sizes are annealed over, as in CleanRL; no run comes that far."""


@dataclass(frozen=True)
class Task:
    """What is learned, alike on both sides. Without a bar a run ends after ``seconds``."""

    name: str
    algorithm: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    bar: float | None = None
    seconds: float = LONGEST

    @property
    def measures(self) -> dict[str, tuple[str, str]]:
        """What is told of a run: a name and a unit for each of its rates."""
        costs = {name: (said, "s") for name, said in COSTS.items()}
        best = {"best": (BEST, "return")} if self.bar is not None else {}
        if self.bar is None:
            return {"update_s": (UPDATE, "s")}
        return {"time_s": (TIME.format(bar=self.bar), "s"), **costs, **best}


_ACTORS, _ENVS, _ROUND = 4, 2, 128
_PPO = (
    "ppo", "--actors", str(_ACTORS), "--total-steps", str(_STEPS), "--device", "pool",
    *(f"--set={word}" for word in (
        f"envs={_ENVS}", f"steps={_ROUND}", "epochs=4", "minibatches=4", "clip=0.1", "anneal=true",
    )),
)  # fmt: skip
_RAY_PPO = (
    "--schedule", f"{_ACTORS}:0", "--envs", str(_ENVS), "--steps", str(_ROUND), "--epochs", "4",
    "--minibatches", "4", "--count", str(_STEPS // (_ACTORS * _ENVS * _ROUND)),
)  # fmt: skip
_SAC_SIZES = {"batch": 64, "ratio": 16, "after": 1_000, "steps": 8, "sync": 8}
"""One update of 64 rows for four steps, as CleanRL's SAC for Atari."""
_CATCH = "evaluation.workloads.catch:make"


def _ppo(game: str, bar: float) -> Task:
    ours_too = (*_PPO, "--env", f"{game}NoFrameskip-v4")
    return Task(f"PPO on {game}", "ppo", ours_too, (*_RAY_PPO, "--env", game.lower()), bar)


def _sac(name: str, ours_env: str, their_env: str, bar: float | None, seconds: float) -> Task:
    sizes = [f"--set={key}={value}" for key, value in _SAC_SIZES.items()]
    more = ("--set=replay_size=50000", "--device", "pool")
    mine = ("sac", "--env", ours_env, "--actors", "2", "--total-steps", "500000", *sizes, *more)
    options = [word for key, value in _SAC_SIZES.items() for word in (f"--{key}", str(value))]
    theirs = (
        "--env", their_env, "--actors", "2", "--total-steps", "500000", "--capacity", "50000",
        "--threads", "2", *options,
    )  # fmt: skip
    return Task(name, "sac", mine, theirs, bar, seconds)


TASKS = (
    _ppo("Pong", -17.0),
    _ppo("Breakout", 5.0),
    _sac("SAC on Catch, for Pong and Breakout", _CATCH, _CATCH, 0.0, LONGEST),
    _sac("SAC on Pong", "PongNoFrameskip-v4", "pong", None, 120.0),
    _sac("SAC on Breakout", "BreakoutNoFrameskip-v4", "breakout", None, 120.0),
)


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Train on all tasks in turn; ``quick`` only shows that everything runs."""
    results = Results("paper-table-4", repeats)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "curve.json")
        contestants = [
            each for task in TASKS for each in _contestants(task, results, path, quick, say)
        ]
        alternate(results, contestants, repeats, say)
    for task in TASKS:
        for measure, _ in task.measures.values():
            if measure != BEST:
                results.compare(case(task, measure, OURS), case(task, measure, RAY), None)
    ppo = [task for task in TASKS if task.algorithm == "ppo"]
    pairs = {f"time to the bar, {task.name}": (task, task.measures["time_s"][0]) for task in ppo}
    pairs |= {f"CPU held, {task.name}": (task, COSTS["held_cpu_s"]) for task in ppo}
    beside(
        results,
        TABLE_4,
        {
            f"{said}, {OURS} over {RAY}": (case(*measured, OURS), case(*measured, RAY))
            for said, measured in pairs.items()
        },
    )
    return results


def case(task: Task, measure: str, who: str) -> str:
    """The name of a row."""
    return f"{task.name}, {measure}: {who}"


def _contestants(
    task: Task, results: Results, path: Path, quick: bool, say: Say
) -> Iterator[Contestant]:
    seconds = SHORT if quick else task.seconds
    bar = 1e9 if task.bar is None else LOW if quick else task.bar
    words = ("--bar", str(bar), "--seconds", str(seconds), "--curve", str(path))

    def our_run(seed: str) -> Callable[[], Answer]:
        return ours(
            "paper.artos_accuracy", *words, "run", *task.ours, "--seed", seed,
            seconds=seconds + _GRACE,
        )  # fmt: skip

    def their_run(seed: str) -> Callable[[], Answer]:
        return baseline(
            "ray", "paper.ray_accuracy", *words, task.algorithm, *task.theirs, "--seed", seed,
            seconds=seconds + _GRACE, say=say, environment=heap.ENVIRONMENT,
        )  # fmt: skip

    for who, run in ((OURS, our_run), (RAY, their_run)):
        cases = {key: (case(task, said, who), unit) for key, (said, unit) in task.measures.items()}
        name, time_case = f"{who}, {task.name}", cases["time_s"][0] if "time_s" in cases else ""
        yield Contestant(name, cases, _drawn(run, results, path, name, time_case))


def _drawn(
    run: Callable[[str], Callable[[], Answer]], results: Results, path: Path, name: str, case: str
) -> Callable[[], Answer]:
    """A run with the next seed, whose curve goes to the series.

    ``case``: that of the time to the bar, at which runs are named that did not reach it.
    """
    missed: list[str] = []

    def measured() -> Answer:
        found = run(str(results.repetition))()
        if case and "steps" not in found.rates:
            missed.append(str(results.repetition))
            results.remark(case, f"seed {', '.join(missed)}: not reached, counted as the limit")
        points = curves.counted(curves.read(path))
        results.followed(
            f"{name}, seed {results.repetition}",
            {"seconds": [p.seconds for p in points], "return": [p.mean_return for p in points]},
        )
        return found

    return measured


def draw(report: Report, path: Path) -> list[Path]:
    """Figure 12: mean returns against the clock, a line for each seed."""
    names = [task.name for task in TASKS if task.bar is not None]
    return [against_the_clock(report, path.with_suffix(".png"), names, "Figure 12")]


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *POOL, *RAY_CORE, "evaluation/elasticity", "evaluation/sharing"), draw
)
