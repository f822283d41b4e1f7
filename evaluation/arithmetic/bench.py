"""How near PPO on Pong comes to what the machine can compute: the part that nobody can leave out.

Four epochs over every frame with the Nature network are some 200 MFLOP a step. What PyTorch's own
kernels need for that, for acting and for ALE's emulator bounds every loop that does this with them
on this machine, and so its ratio to a rival. Other kernels or another emulator may do better.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.machine import has_bfloat16
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, ours

FLOAT32 = "Pong, same hyper-parameters"
BFLOAT16 = f"{FLOAT32}, learner in bfloat16"
BOUND = "kernels and emulator alone"
ONE_FILE = "one file, AtariVectorEnv"
UNIT = "steps/s"
_THREADS = ("--threads", str(len(os.sched_getaffinity(0))))
"""All cores, as our learner has while actors wait."""
_STEPS, _QUICK_STEPS = 16_384, 2_048
_DEADLINE_SECONDS = 300.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results = Results("arithmetic", repeats)
    groups = [FLOAT32, *[BFLOAT16] * (has_bfloat16() and not quick)]
    alternate(results, [c for group in groups for c in _contestants(group, quick)], repeats, say)
    for group in groups:
        for who in (OURS, ONE_FILE):
            results.compare(f"{group}: {who}", f"{group}: {BOUND}")
        results.compare(f"{group}: {BOUND}", f"{group}: {ONE_FILE}")
        results.compare(f"{group}: {OURS}", f"{group}: {ONE_FILE}")
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, "evaluation/throughput/artos_side.py"))


def _contestants(group: str, quick: bool) -> Iterator[Contestant]:
    low = group == BFLOAT16
    bfloat16 = ("--bfloat16",) * low
    yield _contestant(group, BOUND, "arithmetic.kernels", *_THREADS, *bfloat16)
    run = ["run", "ppo", "--env", "PongNoFrameskip-v4", "--actors", "2"]
    run += ["--total-steps", str(_QUICK_STEPS if quick else _STEPS)]
    for setting in ("lr=2.5e-4", "anneal=false", "envs=4", "clip=0.1", *["bfloat16=true"] * low):
        run += ["--set", setting]
    yield _contestant(group, OURS, "throughput.artos_side", *run)
    seconds = ("--seconds", "1" if quick else "12")
    one_file = ("--env", "pong-ale", *_THREADS, *seconds, *bfloat16)
    yield _contestant(group, ONE_FILE, "baselines.one_file_ppo", *one_file)


def _contestant(group: str, who: str, module: str, *arguments: str) -> Contestant:
    environment = None if who == OURS else heap.ENVIRONMENT
    call = ours(module, *arguments, seconds=_DEADLINE_SECONDS, environment=environment)
    return Contestant(f"{group}: {who}", {"steps_per_second": (f"{group}: {who}", UNIT)}, call)
