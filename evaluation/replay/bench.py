"""Off-policy learning, without start-up: DQN and SAC next to others, SAC next to itself.

The others are Stable-Baselines3 and sbx, the same in JAX. All have the same networks, batches and
updates for each step, and are timed by their updates: what makes more or fewer than were due is
refused. Next to itself means with sampling and updates in turn (paper Figure 5) instead of at once.
SAC's update is also timed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.replay.cases import CASES, Case
from evaluation.workloads import pendulum

RIVALS = {"Stable-Baselines3": "sb3", "sbx": "sbx"}
FLOAT32, ROUNDED = "float32", f"{OURS}, bfloat16"
SPEED_GOALS = {"Stable-Baselines3": 1.5, "sbx": 1.0}
UPDATE_GOAL = 0.5
ALONE = "SAC, an update alone"
WHOLE = f"{OURS}, {FLOAT32}"
ALONE_GOALS = {WHOLE: 1.15, ROUNDED: 1.0}
"""The most that an update may take of the time of sbx's, which has no bfloat16."""
THREADS = ("1 thread", "2 threads")
UPDATE, AT_ONCE, IN_TURN = "SAC, wall time of an update", "at once", "in turn"
STEP_TIMES = {"even steps": "false", "uneven steps": "true"}
SLOW_STEPS, SLOW_QUICK = 2_048, 128
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
    fastest = results.lowest([f"{ALONE}: sbx, {FLOAT32}, {label}" for label in THREADS])
    for who, goal in ALONE_GOALS.items():
        own = results.lowest([f"{ALONE}: {who}, {label}" for label in THREADS])
        results.compare(own or f"{ALONE}: {who}, {THREADS[0]}", fastest, goal, "at most")
    for which in STEP_TIMES:
        mine, other = (f"{UPDATE}, {which}: {OURS}, {how}" for how in (AT_ONCE, IN_TURN))
        results.compare(mine, other, UPDATE_GOAL, "at most")
    return results


BENCHMARK = Benchmark(measure, MEMBERS)


def _pace(case: Case, quick: bool, say: Say) -> Iterator[Contestant]:
    steps = case.quick if quick else case.steps
    settings = [f"batch={case.batch}", f"ratio={case.ratio}", f"after={case.after}"]
    settings += [f"hidden={','.join(map(str, case.hidden))}"]
    if case.algorithm == "dqn":
        settings += ["double=false", "n_step=1", "target_every=100", "tau=1"]
    chosen = [word for setting in settings for word in ("--set", setting)]
    call = ours(
        "replay.artos_side", "--due", str(case.due(steps)), "run", case.algorithm, "--env",
        case.env, "--actors", "1", "--total-steps", str(steps), "--seed", "1", *chosen,
        seconds=_DEADLINE_SECONDS,
    )  # fmt: skip
    yield _paced(case, _named(case, OURS), call)
    for rival, library in RIVALS.items():
        for label, *more in _theirs(case):
            name = _named(case, f"{rival}, {label}")
            theirs = ("--rival", library, "--case", case.algorithm, "--steps", str(steps), *more)
            yield _paced(case, name, _rival(library, "replay.sb3_side", *theirs, say=say))


def _paced(case: Case, name: str, call: Callable[[], Answer]) -> Contestant:
    """Of each the steps that its updates are for."""
    measures, every = {"updates_per_second": (name, _UNIT)}, {"updates_per_second": case.every}
    return Contestant(name, measures, call, every)


def _rival(library: str, module: str, *arguments: str, say: Say) -> Callable[[], Answer]:
    """A measurement of others, with the memory settings that our learner has."""
    return baseline(
        library, module, *arguments,
        seconds=_DEADLINE_SECONDS, say=say, environment=heap.ENVIRONMENT,
    )  # fmt: skip


def _alone(quick: bool, say: Say) -> Iterator[Contestant]:
    count = ("--updates", "5" if quick else "500")
    for number, label in enumerate(THREADS, 1):
        chosen = (*count, "--threads", str(number))
        calls = {
            WHOLE: ours("replay.update_side", *chosen, seconds=_DEADLINE_SECONDS),
            ROUNDED: ours("replay.update_side", *chosen, "--bfloat16", seconds=_DEADLINE_SECONDS),
        }
        for rival, library in RIVALS.items():
            theirs = ("--rival", library, *chosen)
            call = _rival(library, "replay.update_rivals", *theirs, say=say)
            calls[f"{rival}, {FLOAT32}"] = call
        for who, call in calls.items():
            name = f"{ALONE}: {who}, {label}"
            yield Contestant(name, {"update_ms": (name, "ms")}, call)


def _theirs(case: Case) -> Iterator[tuple[str, ...]]:
    """The ways to run their script; the best one counts."""
    for number, threads in enumerate(THREADS, 1):
        chosen = ("--threads", str(number))
        yield threads, *chosen
        if case.every > 1:
            yield f"{case.every} environments, {threads}", *chosen, "--envs", str(case.every)


def slow(how: str, which: str, quick: bool) -> Contestant:
    """SAC with slow steps, at once with its updates or in turn."""
    kind = pendulum.concurrent if how == AT_ONCE else pendulum.sequential
    source = f"{Path(pendulum.__file__)}:{kind.__name__}"
    steps = SLOW_QUICK if quick else SLOW_STEPS
    call = ours(
        "replay.artos_side", "--due", str(pendulum.due(steps)), "run", source,
        "--total-steps", str(steps), "--set", f"uneven={STEP_TIMES[which]}",
        seconds=_DEADLINE_SECONDS,
    )  # fmt: skip
    name = f"{UPDATE}, {which}: {OURS}, {how}"
    return Contestant(name, {"update_ms": (name, "ms")}, call)


def _named(case: Case, who: str) -> str:
    often = "an update a step" if case.every == 1 else f"one update in {case.every} steps"
    return f"{case.algorithm.upper()}, {case.env}, {often}: {who}"
