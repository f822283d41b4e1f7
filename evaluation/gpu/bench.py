"""One device for learners in turn: what each level of the ladder costs, how busy it is, how fast.

Everything is measured on ``cuda:0`` if the driver finds a GPU, else on a named CPU device: then the
cases say so, only the order of magnitude of the levels means anything, and no goal is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from artos.learners.compiler import Switch
from artos.pool.pool import Pool
from artos.specs.levels import Level
from artos.system import gpus, heap
from evaluation.core.benchmark import MEMBERS, POOL, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.gpu.busy import BUSY, watched
from evaluation.gpu.ladder import lent
from evaluation.sharing.bench import ppo
from evaluation.sharing.several import at_once

GPU, CPU = "cuda:0", "cpu"
ONE_FILE, SB3 = "one file", "Stable-Baselines3"
COMPILED = f"{ONE_FILE}, compiled"
"""Into CUDA graphs, of which a CPU has none."""
TURNS, QUICK_TURNS = 50, 6
UPDATES, QUICK_UPDATES = 12, 2
SECONDS, QUICK_SECONDS = 10.0, 1.0
GOALS = {Level.KEEP: 0.2, Level.PARK: 5.0}
"""Milliseconds, on a GPU."""
_DEADLINE_SECONDS = 600.0
PONG = (
    "ppo", "--env", "PongNoFrameskip-v4", "--actors", "2", "--set", "envs=4", "--set", "clip=0.1",
)  # fmt: skip
COMPILED_UPDATES = {
    "PPO on Pong": (PONG, UPDATES, 5),
    "PPO on CartPole": (("ppo", "--actors", "2"), 100, 5),
    "DQN on CartPole": (("dqn", "--actors", "1", "--set", "after=200"), 1000, 20),
    "SAC on Pendulum": (
        ("sac", "--env", "Pendulum-v1", "--actors", "1", "--set", "after=300"), 500, 20,
    ),
}  # fmt: skip
"""Arguments of ``artos run``, and how many updates, in a quick run, too."""
_LEVELS = {
    Level.KEEP: "L0, only the turn changes hands",
    Level.TRIM: "L1, caches and gradients are dropped",
    Level.PARK: "L2, 6.7 MB of weights with Adam go to the host and come back",
    Level.END: "L3, the process ends and another returns from the model block",
}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results, device = Results("gpu", repeats), GPU if gpus.count() else CPU
    if device == CPU:
        say("gpu: no GPU here, so a CPU device stands for it, and goals are not judged")
    contestants = [
        *_ladder(device, QUICK_TURNS if quick else TURNS),
        *_shared(device, QUICK_UPDATES if quick else UPDATES, (1, 2) if quick else (1, 2, 4)),
        *_pong(device, quick, say),
        *_compiled(device, quick),
    ]
    # One device for all runs, however many this machine has.
    with Pool.join([lent(device)], name="artos bench gpu"):
        alternate(results, contestants, repeats, say)
    for level, goal in GOALS.items() if device == GPU else ():
        results.require(_level_case(level, device), goal)
    for other in (*([COMPILED] if device == GPU else []), ONE_FILE, SB3):
        results.compare(_pong_case(device, OURS), _pong_case(device, other))
    for name in COMPILED_UPDATES:
        results.compare(_update_case(name, device, "on"), _update_case(name, device, "off"))
    return results


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *POOL, *RAY_CORE, "evaluation/sharing", "evaluation/throughput")
)


# -- what a hand-over costs ------------------------------------------------------------------------


def _ladder(device: str, turns: int) -> Iterator[Contestant]:
    for level in Level:
        arguments = ("--device", device, "--level", level.name, "--turns", str(turns))
        call = ours("gpu.ladder", *arguments, seconds=_DEADLINE_SECONDS)
        yield Contestant(_LEVELS[level], {"ms": (_level_case(level, device), "ms")}, call)


def _level_case(level: Level, device: str) -> str:
    return f"hand-over between two learners on {device}: {_LEVELS[level]}"


# -- how busy it is --------------------------------------------------------------------------------


def _shared(device: str, updates: int, counts: tuple[int, ...]) -> Iterator[Contestant]:
    single = ppo(updates).single()
    for count in counts:
        who = f"{count} learner{'s' * (count > 1)}"
        cases = {
            "update_s": (f"update of PPO on Pong, learners on {device}: {who}", "s"),
            "held_share": (f"time that {device} is leased, by the time of a run: {who}", "%"),
        }
        if device == GPU:
            cases[BUSY] = (f"share of the time that {device} is busy, by the driver: {who}", "%")
        yield Contestant(f"{who}, PPO on Pong", cases, _utilised(single, count, updates))


def _utilised(single: Callable[[], Answer], count: int, updates: int) -> Callable[[], Answer]:
    """So many runs at once: seconds in which any has the device, over the mean seconds of a run.

    That can be somewhat above 100 %, as runs neither begin nor end at the same moment.
    """

    def measured() -> Answer:
        with watched() as busy:
            rates, versions = at_once(single, count)()
        share = 100.0 * rates["held_device_s"] / (rates["update_s"] * updates)
        return Answer({**rates, "held_share": share, **busy()}, versions)

    return measured


# -- how fast it learns ----------------------------------------------------------------------------


def _pong(device: str, quick: bool, say: Say) -> Iterator[Contestant]:
    """8 environments x 128 steps, 4 epochs of 4 minibatches of 256, the Nature network, float32."""
    seconds = str(QUICK_SECONDS if quick else SECONDS)
    updates = str(QUICK_UPDATES if quick else UPDATES)
    run = ("throughput.artos_side", "run", *PONG, "--device", device, "--total-updates", updates)
    one = ("baselines.one_file_ppo", "--env", "pong", "--device", device, "--threads", "2")
    timed = ("--seconds", seconds)
    calls = {
        OURS: ours(*run, seconds=_DEADLINE_SECONDS),
        ONE_FILE: ours(*one, *timed, seconds=_DEADLINE_SECONDS, environment=heap.ENVIRONMENT),
        COMPILED: ours(
            *one, *timed, "--compile", seconds=_DEADLINE_SECONDS, environment=heap.ENVIRONMENT
        ),
        SB3: baseline(
            "sb3", "throughput.sb3_side", "--env", "pong", "--device", device, "--threads", "2",
            *timed, seconds=_DEADLINE_SECONDS, say=say, environment=heap.ENVIRONMENT,
        ),
    }  # fmt: skip
    if device == CPU:
        del calls[COMPILED]
    for who, call in calls.items():
        case = _pong_case(device, who)
        yield Contestant(case, {"steps_per_second": (case, "steps/s")}, call)


def _pong_case(device: str, who: str) -> str:
    return f"PPO on Pong, learning on {device}: {who}"


# -- what compiling gains --------------------------------------------------------------------------


def _compiled(device: str, quick: bool) -> Iterator[Contestant]:
    for name, (arguments, updates, fewer) in COMPILED_UPDATES.items():
        run = (
            "gpu.compiled",
            "run",
            *arguments,
            "--total-updates",
            str(fewer if quick else updates),
        )
        for switch in get_args(Switch):
            case = _update_case(name, device, switch)
            cases = {"update_ms": (case, "ms"), "first_s": (f"{case}, the first one", "s")}
            call = ours(
                *run, "--device", device, "--set", f"compile={switch}", seconds=_DEADLINE_SECONDS
            )
            yield Contestant(case, cases, call)


def _update_case(name: str, device: str, switch: str) -> str:
    return f"update of {name} on {device}, compile={switch}"
