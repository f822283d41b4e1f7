"""Moving rounds from actors to a learner, and weights back: ARTOS, Ray, Redis, raw sockets.

16 actors × 512 steps of 84×84×4 between network namespaces, over links of several speeds, and on
one machine; ARTOS with every feature, with each feature off, and with none. The arrays are the same
for all contestants; sampling and learning are stand-ins that take the same time for all
(``iterations``, ``stand_in_learner``).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from evaluation.core.benchmark import CLUSTER, LAB, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Bound, Results
from evaluation.core.runner import Say, alternate
from evaluation.pipelining.cases import (
    BARE,
    CONTROL_CPU,
    CONTROL_RATE,
    HANDOVER,
    IN_PLACE,
    ITERATION,
    NO_PIPELINE,
    NOTHING,
    ONE_BATCH,
    PLAIN,
    RATE,
    RAY,
    RAY_HERE,
    REDIS,
    SLOWEST,
    SOCKETS,
    TRANSFER,
    UNTHROTTLED,
    WAIT,
    WEIGHTS_HERE,
    case,
    copies,
    first_use,
    fleet,
    training,
)
from evaluation.pipelining.contestants import FULL, QUICK, Contestants, Scale
from evaluation.pipelining.figures import draw_all
from evaluation.pipelining.recording import record


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all contestants in turn; ``quick`` only shows that everything runs."""
    results, scale = Results("pipelining", repeats), QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        say("pipelining: recording a game")
        recording = Path(folder, "recording")
        results.machine["frames"] = record(recording, scale.recorded)
        alternate(results, list(Contestants(scale, recording, say)), repeats, say)
    judge(results, scale)
    return results


BENCHMARK = Benchmark(
    measure, ("artos/buffer", *CLUSTER, *LAB, *RAY_CORE, "head/run", "head/daemon"), draw_all
)


def judge(results: Results, scale: Scale) -> None:
    """Compare the results with their goals."""

    def ratio(case: str, against: str, goal: float | None, bound: Bound = "at most") -> None:
        results.compare(case, against, goal, bound)

    for speed in scale.speeds:
        ratio(case(WAIT, speed, OURS), case(WAIT, speed, NOTHING), 0.25)
        ratio(case(WAIT, speed, OURS), case(WAIT, speed, NO_PIPELINE), None)
        ratio(case(WAIT, speed, OURS), case(WAIT, speed, RAY), 0.5)
        for theirs in (NO_PIPELINE, RAY):
            ratio(case(ITERATION, speed, OURS), case(ITERATION, speed, theirs), None)
        ratio(case(TRANSFER, speed, OURS), case(TRANSFER, speed, SOCKETS), None)
    ratio(case(WAIT, UNTHROTTLED, OURS), case(WAIT, UNTHROTTLED, RAY_HERE), 0.5)
    ratio(f"{RATE}: {BARE}", f"{RATE}: {SOCKETS}", 0.9, "at least")
    ratio(f"{RATE}: {NOTHING}", f"{RATE}: {SOCKETS}", None, "at least")
    ratio(case(TRANSFER, SLOWEST, OURS), case(TRANSFER, SLOWEST, REDIS), 0.1)
    ratio(case(ITERATION, SLOWEST, OURS), case(ITERATION, UNTHROTTLED, OURS), 1.05)
    ratio(f"{training(SLOWEST)}: {OURS}", f"{training(UNTHROTTLED)}: {OURS}", 1.05)
    ratio(f"{training(SLOWEST)}: {OURS}", f"{training(SLOWEST)}: {NO_PIPELINE}", None)
    ratio(f"{HANDOVER}: {OURS}, {ONE_BATCH}", f"{HANDOVER}: {RAY}, {ONE_BATCH}", 0.4)
    ratio(f"{WEIGHTS_HERE}: {OURS}", f"{WEIGHTS_HERE}: {RAY}", 0.05)
    ratio(f"{first_use(UNTHROTTLED)}: {OURS}", f"{first_use(UNTHROTTLED)}: {RAY}", 0.2)
    ratio(f"{first_use(UNTHROTTLED)}: {PLAIN}", f"{first_use(UNTHROTTLED)}: {RAY}", None)
    results.require(f"{HANDOVER}: {OURS}, {IN_PLACE}", 1.0)
    for speed in scale.weights_speeds:
        results.require(f"{copies(speed)}: {OURS}", 1.1)
    few, many = scale.fleets[0], scale.fleets[-1]
    growth = many / few
    results.compare(
        f"{CONTROL_CPU}: {fleet(many)}", f"{CONTROL_CPU}: {fleet(few)}", 1.15 * growth, "at most"
    )
    results.compare(f"{CONTROL_RATE}: {fleet(many)}", f"{CONTROL_RATE}: {fleet(few)}")
