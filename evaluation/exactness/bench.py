"""``artos bench exactness``: asynchronous runs, killed and scaled at random, and their replays."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from evaluation.core.benchmark import CLUSTER, LAB, MEMBERS, POOL, Benchmark
from evaluation.core.report import Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, cases_of
from evaluation.exactness.trial import CASES, Trial, trial

RUNS = 13
"""Runs of each case: more than a hundred in all."""
PAUSE_SECONDS = 1.5
"""Mean time between two disturbances of a run."""
KILLS_GOAL = 1.0
"""Of a run, in the median: a proof of runs that nothing happened to would be none."""
DIFFERING = Path("bench-results", "exactness")
"""Where runs are kept that did not come out bit for bit."""
RECORDED_GOAL = 1.0
"""MB a minute that a replay needs, at most. A run that is killed records its starts again."""
_MEASURES = {
    "differs": ("runs that did not come out bit for bit", "runs"),
    "versions": ("versions that were compared", "versions"),
    "kills": ("members and nodes that were killed", ""),
    "changes": ("changes of the number of actors, and drains", ""),
    "recorded": ("recorded for a replay", "MB/min"),
    "seconds": ("how long the run went", "s"),
}


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Run and replay each case so often, by another seed each time; ``quick`` is one run."""
    results = Results("exactness", repeats)
    chosen = [*CASES][: 1 if quick else None]
    with tempfile.TemporaryDirectory(prefix="artos-exactness-") as folder:
        contestants = [_contestant(name, Path(folder), results) for name in chosen]
        alternate(results, contestants, repeats, say)
    for name in chosen:
        results.require(cases_of(_MEASURES, name)["differs"][0], 0.0, every=True)
        results.require(cases_of(_MEASURES, name)["kills"][0], KILLS_GOAL, "at least")
        results.require(cases_of(_MEASURES, name)["recorded"][0], RECORDED_GOAL)
    return results


def rates(found: Trial) -> dict[str, float]:
    """What a run and its replay come to. One of which nothing was compared differs, too."""
    return {
        "differs": float(not (found.equal and found.versions and found.outcome == "done")),
        "versions": float(found.versions),
        "kills": float(found.kills),
        "changes": float(found.changes),
        "recorded": found.recorded / 1e6 / found.seconds * 60,
        "seconds": found.seconds,
    }


def _contestant(name: str, folder: Path, results: Results) -> Contestant:
    notes: list[str] = []

    def measured() -> Answer:
        seed = results.repetition
        run = f"{name}-{seed}".lower().replace(",", "").replace(" ", "-")
        answer = rates(found := trial(CASES[name], folder / run, seed, PAUSE_SECONDS))
        if answer["differs"]:
            shutil.copytree(folder / run, DIFFERING / run, symlinks=True, dirs_exist_ok=True)
            notes.append(f"{found.run}: {found.outcome}, {found.versions} versions. {found.why}")
            results.remark(cases_of(_MEASURES, name)["differs"][0], "; ".join(notes))
        return Answer(answer, {})

    return Contestant(name, cases_of(_MEASURES, name), measured)


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *POOL, *CLUSTER, *LAB, "deploy/local", "deploy/replay"), least=RUNS
)
