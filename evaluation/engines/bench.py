"""``artos bench engines``: what an engine costs, and what it costs when it takes workers away.

All ways are on one machine, in turn: daemons started by hand, and ``artos up`` on a real sshd,
Slurm and Ray. A run of PPO tells how soon a cluster works and how fast; then actors of a simulated
environment, which need a CPU of their node each, run while workers are taken away at random.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from artos.errors import ArtosError
from evaluation.core.benchmark import CLUSTER, LAB, MEMBERS, Benchmark
from evaluation.core.report import Results
from evaluation.core.runner import Contestant, Say, alternate, cases_of, ours
from evaluation.engines import preempted, simulated, starting
from evaluation.engines.ways import BY_HAND, RAY, SLURM, SSH, Places, places

STARTS, FOLLOWED = 7, 10.0
"""Fewest starts of each way, and seconds of each start's run of PPO: two starts of one way differ
by more than the ways do."""
PREEMPTED, EVENTS = 200.0, {SLURM: 8, RAY: 7}
"""Seconds and events of a run whose workers are taken away. Three repetitions are the ten minutes
and at least twenty events that are judged; on Slurm some come too late to be one."""
RATE_GOAL, NODE_GOAL, LATE_GOAL = 0.98, 0.95, 2.0
_STARTING = {
    "up_s": ("until all workers have joined", "s"),
    "update_s": ("until the first update", "s"),
    "actors_s": ("until all actors were learned from", "s"),
    "steps_per_s": ("PPO", "steps/s"),
    "down_s": ("until nothing is left", "s"),
}
_STEADY, _TAKEN = "nobody taken away", "workers taken away"
_PREEMPTED = {
    "steps_per_node_s": ("environment steps for a second of a node", "steps/s"),
    "late_s": ("longest wait for an update, beyond the usual one", "s"),
    "update_s": ("usual time between updates", "s"),
    "taken": ("workers taken away", ""),
    "missing_rows": ("committed rows that were never learned from", "rows"),
    "again_rows": ("rows of unfinished rounds, sampled again", "rows"),
    "anew": ("environments that began anew", ""),
}
_HEADS = (10, 100, 1_000)
"""Nodes of which a real head hears; a process each would be too much for one machine."""
_SIMULATED = (*_HEADS, 10_000)
_OF_A_HEAD = {
    "head_cpu": ("CPUs of a head at rest", "CPUs"),
    "messages_per_s": ("reports that a head takes", "messages/s"),
    "killed_s": ("until a run hears of a killed worker", "s"),
    "noticed_s": ("until a run hears of a silent node, beyond the deadline", "s"),
}
_OF_A_SCHEDULER = {
    "left_ms": ("orders after a node has left", "ms"),
    "came_ms": ("orders after a node has come", "ms"),
}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all ways in turn; ``quick`` only shows that everything runs."""
    results = Results("engines", repeats)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="artos-engines-") as folder,
            places(Path(folder), say) as there,
        ):
            starts = repeats if quick else max(repeats, STARTS)
            alternate(results, [*_started(there, quick)], starts, say)
            alternate(results, [*_taken(there, quick)], repeats, say)
    except ArtosError as why:
        say(str(why))
        results.absent(f"{_STARTING['up_s'][0]}: {SLURM}", "s", str(why))
    results.absent(f"{_STARTING['up_s'][0]}: Kubernetes", "s", "no machine here has an API server")
    alternate(results, [*_many(quick)], repeats, say)
    rate = _STARTING["steps_per_s"][0]
    for engine in (SSH, SLURM, RAY):
        results.compare(f"{rate}: {engine}", f"{rate}: {BY_HAND}", RATE_GOAL)
    for engine in (SLURM, RAY):
        case = _PREEMPTED["steps_per_node_s"][0]
        mine, steady = (f"{case}: {engine}, {how}" for how in (_TAKEN, _STEADY))
        results.compare(mine, steady, NODE_GOAL)
        for key, goal in (("late_s", LATE_GOAL), ("missing_rows", 0.0)):
            results.require(f"{_PREEMPTED[key][0]}: {engine}, {_TAKEN}", goal, every=True)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, *CLUSTER, *LAB, "deploy/launchers", "head/daemon"))


def _started(there: Places, quick: bool) -> Iterator[Contestant]:
    seconds = 2.0 if quick else FOLLOWED
    for name, way in there.ways.items():
        measured = partial(starting.measure, way, seconds)
        yield Contestant(name, cases_of(_STARTING, name), measured)


def _taken(there: Places, quick: bool) -> Iterator[Contestant]:
    seconds = 20.0 if quick else PREEMPTED
    for engine, most in EVENTS.items():
        way, units = there.ways[engine], preempted.units_of(there, engine)
        # What is steady need not be watched for as long.
        for how, events, watched in (
            (_STEADY, 0, seconds / 3),
            (_TAKEN, 1 if quick else most, seconds),
        ):
            who, runs = f"{engine}, {how}", count()
            measured = partial(preempted.measure, way, units, there.folder, watched, events, runs)
            yield Contestant(who, cases_of(_PREEMPTED, who), measured)


def _many(quick: bool) -> Iterator[Contestant]:
    for nodes in _HEADS[:1] if quick else _HEADS:
        load = ours("control_plane.head_load", "--workers", str(nodes), seconds=300.0)
        cases = cases_of(_OF_A_HEAD, f"{nodes:,} nodes")
        yield Contestant(f"a head with {nodes:,} nodes", cases, load)
    for nodes in _SIMULATED[:1] if quick else _SIMULATED:
        taken = partial(simulated.measure, nodes, 0.1 if quick else 3.0)
        cases = cases_of(_OF_A_SCHEDULER, f"{nodes:,} nodes")
        yield Contestant(f"a scheduler with {nodes:,} nodes", cases, taken)
