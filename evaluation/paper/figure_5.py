"""Figure 5: what it costs to sample and to learn in turn, where an algorithm need not.

The cases are those of ``artos bench replay``, and SAC on Pendulum beside Ray's core is that of
``artos bench sharing``, of one run alone. The paper draws the pattern, and measures it in
Figure 13b.
"""

from __future__ import annotations

from evaluation.core.benchmark import MEMBERS, POOL, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate
from evaluation.paper.said import FIGURE_5, beside
from evaluation.replay.bench import AT_ONCE, IN_TURN, STEP_TIMES, THREADS, UPDATE, slow
from evaluation.sharing.bench import SAC, ray_sac

ALONE = "SAC on Pendulum, an update, sampling included"
RAYS = {f"Ray, {threads}": threads[:1] for threads in THREADS}


_MILLISECONDS = {"update_s": 1e3}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results = Results("paper-figure-5", repeats)
    ways = [slow(how, which, quick) for which in STEP_TIMES for how in (AT_ONCE, IN_TURN)]
    calls = {OURS: SAC.single(), **{who: ray_sac(say, number) for who, number in RAYS.items()}}
    beside_ray = [
        Contestant(f"{who}, alone", {"update_s": (f"{ALONE}: {who}", "ms")}, call, _MILLISECONDS)
        for who, call in calls.items()
    ]
    alternate(results, [*ways, *beside_ray], repeats, say)
    for which in STEP_TIMES:
        mine, other = (f"{UPDATE}, {which}: {OURS}, {how}" for how in (AT_ONCE, IN_TURN))
        results.compare(mine, other, None)
    mine, best = f"{ALONE}: {OURS}", results.lowest([f"{ALONE}: {who}" for who in RAYS])
    results.compare(mine, best, 1.0, "at most")
    beside(results, FIGURE_5, {FIGURE_5[0].case: (mine, best or "")})
    return results


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *POOL, *RAY_CORE, "evaluation/replay", "evaluation/sharing")
)
