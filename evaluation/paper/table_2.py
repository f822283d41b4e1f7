"""Table 2: data transfer and elasticity, as figures instead of words.

The cases are those of ``artos bench pipelining``, on one machine and over a link of 10 Gbit/s, and
of ``artos bench elasticity`` for new actors, without those that have nobody beside them. MinionsRL
and Nitro have no code to be measured: their transfer is that of Redis, as in the paper. There is no
row for expressiveness, which nobody has counted for Ray.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from evaluation.core.benchmark import CLUSTER, ELASTIC, LAB, MEMBERS, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Results, split
from evaluation.core.runner import Contestant, Say, alternate
from evaluation.elasticity import bench as elasticity
from evaluation.paper.said import TABLE_2, beside
from evaluation.pipelining import contestants as pipelining
from evaluation.pipelining.cases import (
    FASTEST,
    HANDOVER,
    ONE_BATCH,
    RAY,
    REDIS,
    TRANSFER,
    WEIGHTS_HERE,
    case,
    group,
)
from evaluation.pipelining.recording import record

_LINK = group(TRANSFER, FASTEST)
_GROUPS = {HANDOVER, WEIGHTS_HERE, _LINK, elasticity.START, elasticity.TOGETHER, elasticity.MEMORY}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results = Results("paper-table-2", repeats)
    with tempfile.TemporaryDirectory() as folder:
        sizes = pipelining.QUICK if quick else pipelining.FULL
        recording = Path(folder, "recording")
        results.machine["frames"] = record(recording, sizes.recorded)
        scale = elasticity.QUICK if quick else elasticity.FULL
        moving = pipelining.Contestants(sizes, recording, say)
        wanted = {f"{who}, {FASTEST}, {sizes.size}" for who in (OURS, RAY, REDIS)}
        linked = [each for each in moving.over(FASTEST) if each.name in wanted]
        transfer = [*moving.one_machine(), *linked]
        starts = elasticity.Contestants(scale, results, Path(folder), say).starts()
        most = f"{scale.together[-1]} "
        alternate(results, [*_compared([*transfer, *starts], most)], repeats, say)
    mine, ray, redis = (f"{HANDOVER}: {who}, {ONE_BATCH}" for who in (OURS, RAY, REDIS))
    for theirs in (ray, redis):
        results.compare(mine, theirs, None)
    clone = f"{elasticity.START}: {OURS}, {elasticity.CLONE}"
    best = results.lowest(f"{elasticity.START}: {how}" for how in elasticity.RAY_STARTS)
    results.compare(clone, best, None)
    mine, ray, redis = (case(TRANSFER, FASTEST, who) for who in (OURS, RAY, REDIS))
    for theirs in (ray, redis):
        results.compare(mine, theirs, None)
    pairs = {TABLE_2[0].case: (mine, ray), TABLE_2[1].case: (redis, ray)}
    beside(results, TABLE_2, pairs)
    return results


def _compared(contestants: Iterable[Contestant], most: str) -> Iterator[Contestant]:
    """With the cases that another side has as well; of several actors those with the most."""
    for each in contestants:
        cases = {
            measure: (named, unit)
            for measure, (named, unit) in each.cases.items()
            if split(named)[0] in _GROUPS
            and (split(named)[0] not in {elasticity.TOGETHER, elasticity.MEMORY} or most in named)
        }
        yield dataclasses.replace(each, cases=cases)


BENCHMARK = Benchmark(
    measure,
    (*MEMBERS, *CLUSTER, *ELASTIC, *LAB, *RAY_CORE, "evaluation/elasticity",
     "evaluation/pipelining", "head/daemon"),
)  # fmt: skip
