"""The error of ``artos simulate``: makespans of real runs of this machine, and simulated ones."""

from __future__ import annotations

from evaluation.core.benchmark import Benchmark
from evaluation.core.report import Results
from evaluation.core.runner import Contestant, Say, alternate, ours

UNIT = "s"
_DEADLINE_SECONDS = 600.0
CASES = {
    "ppo": "makespan of PPO alone",
    "sac": "makespan of SAC alone",
    "both": "makespan of both at once",
}
KINDS = {
    "measured": "measured",
    "simulated": "simulated from its own journal",
    "forecast": "forecast from those alone",
}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Make each run alone and both at once, and simulate them; ``quick`` makes short runs."""
    results = Results("simulation", repeats)
    share = "0.05" if quick else "1"
    call = ours("simulation.real_runs", share, seconds=_DEADLINE_SECONDS)
    cases = {
        f"{name}.{kind}": (_case(name, kind), UNIT)
        for name in CASES
        for kind in KINDS
        if kind != "forecast" or name == "both"
    }
    alternate(results, [Contestant("real and simulated runs", cases, call)], repeats, say)
    for name in CASES:
        results.compare(_case(name, "simulated"), _case(name, "measured"))
    results.compare(_case("both", "forecast"), _case("both", "measured"))
    return results


BENCHMARK = Benchmark(measure, ("deploy/simulation",))


def _case(name: str, kind: str) -> str:
    return f"{CASES[name]}: {KINDS[kind]}"
