"""Table 2: expressiveness, data transfer and elasticity, as figures instead of words.

The cases are those of ``artos bench pipelining`` on one machine and of ``artos bench elasticity``
for new actors, without those that have nobody beside them; expressiveness is the number of
algorithms that are tables of triggers here. MinionsRL and Nitro have no code to be measured: their
transfer is that of Redis, as in the paper.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from evaluation.core.benchmark import CLUSTER, ELASTIC, Benchmark
from evaluation.core.report import OURS, Results, split
from evaluation.core.runner import Answer, Contestant, Say, alternate
from evaluation.elasticity import bench as elasticity
from evaluation.paper.said import TABLE_2, beside
from evaluation.pipelining import contestants as pipelining
from evaluation.pipelining.cases import HANDOVER, ONE_BATCH, RAY, REDIS, WEIGHTS_HERE
from evaluation.pipelining.recording import record
from triggers.algorithms import BUILT_IN

EXPRESSIVENESS = f"expressiveness, algorithms that are a table of triggers: {OURS}"
_GROUPS = {HANDOVER, WEIGHTS_HERE, elasticity.START, elasticity.TOGETHER, elasticity.MEMORY}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results = Results("paper-table-2", repeats)
    with tempfile.TemporaryDirectory() as folder:
        sizes = pipelining.QUICK if quick else pipelining.FULL
        recording = Path(folder, "recording")
        results.machine["frames"] = record(recording, sizes.recorded)
        scale = elasticity.QUICK if quick else elasticity.FULL
        count = Contestant("algorithms", {"count": (EXPRESSIVENESS, "")}, _algorithms)
        transfer = pipelining.Contestants(sizes, recording, say).one_machine()
        starts = elasticity.Contestants(scale, results, Path(folder), say).starts()
        most = f"{scale.together[-1]} "
        alternate(results, [count, *_compared([*transfer, *starts], most)], repeats, say)
    mine, ray, redis = (f"{HANDOVER}: {who}, {ONE_BATCH}" for who in (OURS, RAY, REDIS))
    for theirs in (ray, redis):
        results.compare(mine, theirs, None)
    clone = f"{elasticity.START}: {OURS}, {elasticity.CLONE}"
    results.compare(clone, f"{elasticity.START}: {elasticity.RAY}", None)
    pairs = {TABLE_2[0].case: (mine, ray), TABLE_2[1].case: (redis, ray)}
    beside(results, TABLE_2, pairs)
    return results


def _compared(contestants: Iterable[Contestant], most: str) -> Iterator[Contestant]:
    """With the cases that another side has as well; of several actors those with the most."""
    for each in contestants:
        cases = {
            measure: (case, unit)
            for measure, (case, unit) in each.cases.items()
            if split(case)[0] in _GROUPS
            and (split(case)[0] not in {elasticity.TOGETHER, elasticity.MEMORY} or most in case)
        }
        yield dataclasses.replace(each, cases=cases)


def _algorithms() -> Answer:
    return Answer({"count": float(len(BUILT_IN))}, {})


BENCHMARK = Benchmark(
    measure, ("artos/buffer", *CLUSTER, *ELASTIC, "evaluation/elasticity", "evaluation/pipelining")
)
