"""Actors that wait as images, with and without pre-warming, against never parking (Table 5).

PPO on Pong, all ways by turns: a number of actors that stays, one that changes, and one that stays
next to a learner that leaves a CPU to restores, as one on a GPU does. Counted from the eighth
update on, when the windows of five updates are full and hold nothing of the start.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.core.benchmark import ELASTIC, MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, ours
from evaluation.prewarm.cases import (
    APART,
    CASES,
    CHANGING,
    CONSTANT,
    IN_TIME,
    MEAN,
    NEVER,
    NONE,
    QUANTILES,
    UPDATE,
    WAYS,
    WINDOW,
    case_of,
)
from evaluation.prewarm.figures import draw_all
from workers.host.cpus import host_slots

SCALE = {"in_time": 100.0, "late_s": 1e3}
SHARE_GOAL, COST_GOAL = 99.0, 1.01
_DEADLINE_SECONDS = 1_800.0
_MOST = 16


@dataclass(frozen=True)
class Size:
    """The amount of work: updates of a run, and how many of them are not counted."""

    updates: int
    stable: int


FULL, QUICK = Size(24, 7), Size(4, 1)


def runs_of(slots: int, updates: int) -> dict[str, tuple[str, ...]]:
    """Arguments of the runs, by name: the numbers of actors, and the learner's threads.

    Never more actors than slots, as an actor that is never parked keeps its slot.
    """
    most = min(slots, _MOST)
    least, step = max(1, most // 2), max(1, updates // 4)
    changing = f"0:{least},{step}:{most},{2 * step}:{least},{3 * step}:{most}"
    return {
        CONSTANT: ("--actors", str(most)),
        CHANGING: ("--actors", changing if least < most else str(most)),
        APART: ("--actors", str(most), "--set", f"threads={max(1, slots - 1)}"),
    }


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all ways in turn; ``quick`` only shows that everything runs."""
    results, size = Results("prewarm", repeats), QUICK if quick else FULL
    runs = runs_of(len(host_slots()), size.updates)
    with tempfile.TemporaryDirectory() as folder:
        contestants = [
            _contestant(results, which, words, way, size, Path(folder))
            for which, words in runs.items()
            for way in WAYS
        ]
        alternate(results, contestants, repeats, say)
    for which in runs:
        judge(results, which)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC), draw_all)


def judge(results: Results, which: str) -> None:
    """Compare with the goals."""

    def case(what: str, way: str) -> str:
        return case_of(which, what, way)

    for what in (UPDATE, MEAN):
        results.compare(case(what, QUANTILES), case(what, NEVER), COST_GOAL, "at most")
        results.compare(case(what, WINDOW), case(what, NEVER), None, "at most")
        results.compare(case(what, NONE), case(what, NEVER), None, "at most")
        for forecast in (WINDOW, QUANTILES):
            results.compare(case(what, forecast), case(what, NONE), None, "at most")
    results.require(case(IN_TIME, QUANTILES), SHARE_GOAL, "at least")


def _contestant(
    results: Results, which: str, words: Sequence[str], way: str, size: Size, folder: Path
) -> Contestant:
    path = folder / "series.json"
    cases = {
        name: (case_of(which, what, way), unit)
        for name, (what, unit) in CASES.items()
        if name != "early_s" or way in (WINDOW, QUANTILES)
    }
    call = ours(
        "prewarm.artos_side", *words, "--count", str(size.updates),
        "--stable", str(size.stable), "--series", str(path),
        *(word for pair in WAYS[way] for word in ("--set", pair)), seconds=_DEADLINE_SECONDS,
    )  # fmt: skip
    name = f"{OURS}, {way}, {which}"

    def measured() -> Answer:
        found = call()
        results.followed(name, json.loads(path.read_text()))
        return found

    return Contestant(name, cases, measured, SCALE)
