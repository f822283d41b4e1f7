"""Off-policy learning, without start-up: DQN and SAC next to others, SAC next to itself.

The others are Stable-Baselines3 and sbx, the same in JAX. All have the same networks, batches and
updates for each step. Next to itself means with sampling and updates in turn (paper Figure 5)
instead of at once. SAC's update is also timed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, baseline, ours
from evaluation.replay.cases import CASES, Case
from evaluation.workloads import pendulum

RIVALS = {"Stable-Baselines3": "sb3", "sbx": "sbx"}
ROUNDED = f"{OURS}, bfloat16"
SPEED_GOALS = {"Stable-Baselines3": 1.5, "sbx": 1.0}
UPDATE_GOAL = 0.5
ALONE = "SAC, an update alone"
ALONE_GOALS = {OURS: 1.15, ROUNDED: 1.0}
"""The most that an update may take of the time of sbx's."""
THREADS = ("1 thread", "2 threads")
UPDATE, AT_ONCE, IN_TURN = "SAC, wall time of an update", "at once", "in turn"
STEP_TIMES = {"even steps": "false", "uneven steps": "true"}
SLOW_STEPS, SLOW_QUICK = 1_024, 128
_DEADLINE_SECONDS = 600.0
_UNIT = "steps/s"


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all contestants in turn; ``quick`` only shows that everything runs."""
    results = Results("replay", repeats)
    contestants = [c for case in CASES.values() for c in _pace(case, quick, say)]
    contestants += _alone(quick, say)
    contestants += [slow(how, which, quick) for which in STEP_TIMES for how in (AT_ONCE, IN_TURN)]
    alternate(results, contestants, repeats, say)
    for case in CASES.values():
        for rival, goal in SPEED_GOALS.items():
            theirs = [_named(case, f"{rival}, {label}") for label, *_ in _theirs(case)]
            results.compare(_named(case, OURS), results.best(theirs), goal)
    fastest = results.lowest([f"{ALONE}: sbx, {label}" for label in THREADS])
    for who, goal in ALONE_GOALS.items():
        own = results.lowest([f"{ALONE}: {who}, {label}" for label in THREADS])
        results.compare(own or f"{ALONE}: {who}, {THREADS[0]}", fastest, goal, "at most")
    for which in STEP_TIMES:
        mine, other = (f"{UPDATE}, {which}: {OURS}, {how}" for how in (AT_ONCE, IN_TURN))
        results.compare(mine, other, UPDATE_GOAL, "at most")
    return results


BENCHMARK = Benchmark(measure, MEMBERS)


def _pace(case: Case, quick: bool, say: Say) -> Iterator[Contestant]:
    steps = str(case.quick if quick else case.steps)
    settings = [f"batch={case.batch}", f"ratio={case.ratio}", f"after={case.after}"]
    settings += [f"hidden={','.join(map(str, case.hidden))}"]
    if case.algorithm == "dqn":
        settings += ["double=false", "n_step=1", "target_every=100", "tau=1"]
    chosen = [word for setting in settings for word in ("--set", setting)]
    arguments = ("--env", case.env, "--actors", "1", "--total-steps", steps, "--seed", "1")
    call = ours(
        "replay.artos_side", "run", case.algorithm, *arguments, *chosen, seconds=_DEADLINE_SECONDS
    )
    name = _named(case, OURS)
    yield Contestant(name, {"steps_per_second": (name, _UNIT)}, call)
    for rival, library in RIVALS.items():
        for label, *more in _theirs(case):
            name = _named(case, f"{rival}, {label}")
            theirs = ("--rival", library, "--case", case.algorithm, "--steps", steps, *more)
            call = baseline(library, "replay.sb3_side", *theirs, seconds=_DEADLINE_SECONDS, say=say)
            yield Contestant(name, {"steps_per_second": (name, _UNIT)}, call)


def _alone(quick: bool, say: Say) -> Iterator[Contestant]:
    count = ("--updates", "5" if quick else "500")
    for number, label in enumerate(THREADS, 1):
        chosen = (*count, "--threads", str(number))
        calls = {
            OURS: ours("replay.update_side", *chosen, seconds=_DEADLINE_SECONDS),
            ROUNDED: ours("replay.update_side", *chosen, "--bfloat16", seconds=_DEADLINE_SECONDS),
        }
        for rival, library in RIVALS.items():
            calls[rival] = baseline(
                library, "replay.update_rivals", "--rival", library, *chosen,
                seconds=_DEADLINE_SECONDS, say=say,
            )  # fmt: skip
        for who, call in calls.items():
            name = f"{ALONE}: {who}, {label}"
            yield Contestant(name, {"update_ms": (name, "ms")}, call)


def _theirs(case: Case) -> Iterator[tuple[str, ...]]:
    """The ways to run their script; the best one counts."""
    yield "1 thread", "--threads", "1"
    yield "2 threads", "--threads", "2"
    if case.every > 1:
        yield f"{case.every} environments", "--threads", "1", "--envs", str(case.every)


def slow(how: str, which: str, quick: bool) -> Contestant:
    """SAC with slow steps, at once with its updates or in turn."""
    kind = pendulum.concurrent if how == AT_ONCE else pendulum.sequential
    source = f"{Path(pendulum.__file__)}:{kind.__name__}"
    steps = str(SLOW_QUICK if quick else SLOW_STEPS)
    arguments = (source, "--total-steps", steps, "--set", f"uneven={STEP_TIMES[which]}")
    call = ours("replay.artos_side", "run", *arguments, seconds=_DEADLINE_SECONDS)
    name = f"{UPDATE}, {which}: {OURS}, {how}"
    return Contestant(name, {"update_ms": (name, "ms")}, call)


def _named(case: Case, who: str) -> str:
    return f"{case.algorithm.upper()}, {case.env}, one update in {case.every} steps: {who}"
