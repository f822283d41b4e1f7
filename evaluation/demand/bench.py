"""``artos bench demand``: what runs that come and go cost on as many machines as they need.

The same runs come at the same times to a cluster of ARTOS on Slurm that has as many workers as runs
can use, to one that keeps all of its workers, and to Ray with its autoscaler. Environments only
sleep, so that one machine's cores do not limit its nodes. Workers and machines leave after a minute
without work on both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from artos.errors import ArtosError
from deploy.launchers.scaling import PATIENCE
from evaluation.core.benchmark import CLUSTER, LAB, MEMBERS, Benchmark
from evaluation.core.report import Results
from evaluation.core.runner import Contestant, Say, alternate, cases_of
from evaluation.demand import artos_side, ray_side
from evaluation.demand.arrivals import QUICK, TRACE
from evaluation.engines.preempted import on_slurm
from evaluation.engines.ways import WORKERS, by_slurm
from evaluation.lab.packages import python_with
from evaluation.lab.raylets import PACKAGE
from evaluation.lab.slurm import Slurm, slurm

ELASTIC, FIXED, RAY = "as many workers as needed", "workers that stay", "Ray, autoscaled"
_CASES = {
    "held_s": ("seconds that nodes were held", "s"),
    "turnaround_s": ("from a run's arrival to its end, on average", "s"),
    "makespan_s": ("until the last run's end", "s"),
    "steps_per_node_s": ("environment steps for a second of a node", "steps/s"),
}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all three in turn; ``quick`` only shows that everything runs."""
    results = Results("demand", repeats)
    held = _CASES["held_s"][0]
    try:
        with tempfile.TemporaryDirectory(prefix="artos-demand-") as folder:
            say("installing Slurm and Ray, in a layer of their own")
            python = python_with(Path(folder) / "python", PACKAGE)
            with slurm(Path(folder), 18017) as there:
                alternate(results, [*_contestants(there, python, quick)], repeats, say)
    except ArtosError as why:
        say(str(why))
        results.absent(f"{held}: {ELASTIC}", "s", str(why))
    for case, _ in _CASES.values():
        for rival in (FIXED, RAY):
            results.compare(f"{case}: {ELASTIC}", f"{case}: {rival}")
    return results


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *CLUSTER, *LAB, "deploy/launchers", "evaluation/engines", "head/daemon")
)


def _contestants(there: Slurm, python: Path, quick: bool) -> Iterator[Contestant]:
    arrivals, units = QUICK if quick else TRACE, on_slurm(there)
    for name, nodes in ((ELASTIC, f"0..{WORKERS}"), (FIXED, str(WORKERS))):
        way = by_slurm(there, nodes)
        measured = partial(artos_side.measure, way, units, there.folder, arrivals)
        yield Contestant(name, cases_of(_CASES, name), measured)
    measured = partial(ray_side.measure, python, there.folder, PATIENCE, arrivals)
    yield Contestant(RAY, cases_of(_CASES, RAY), measured)
