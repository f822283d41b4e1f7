"""What the pre-warming benchmark reads from a journal, and that it draws what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation.core.report import OURS, Results
from evaluation.prewarm import figures
from evaluation.prewarm.artos_side import measures, series, updates_of
from evaluation.prewarm.bench import APART, CHANGING, CONSTANT, WAYS, case_of, judge, runs_of


def line(t: float, **facts: Any) -> dict[str, Any]:
    return {"t": t, **facts}


JOURNAL = [
    line(1.0, firing=1, trigger="actors.sample"),
    line(2.0, done=1, by="actor 0"),
    line(2.1, done=1, by="actor 1"),
    line(4.0, done=2, by="learner", seconds=1.9),
    line(4.0, firing=3, trigger="actors.sample"),
    line(5.0, done=3, by="actor 0", waited=0.3, restored=0.3),
    line(5.1, done=3, by="actor 1", waited=0.01, restored=0.2),
    line(6.0, firing=5, trigger="actors.prewarm"),
    line(7.0, done=4, by="learner", seconds=1.8),
    line(7.0, firing=6, trigger="actors.sample"),
    line(8.0, done=6, by="actor 0", restored=0.4),
    line(10.0, done=7, by="learner", seconds=2.0),
    line(10.0, firing=8, trigger="actors.sample"),
]


def test_updates_waits_and_orders_are_read_from_the_journal() -> None:
    first, second, third = updates_of(JOURNAL)
    assert (first.seconds, second.seconds, third.seconds) == (3.0, 3.0, 3.0)
    assert (first.learning, second.learning, third.learning) == (1.9, 1.8, 2.0)
    assert (first.waits, second.waits, third.waits) == ((0.0, 0.0), (0.3, 0.01), (0.0,))
    assert (second.restores, third.restores) == ((0.3, 0.2), (0.4,))
    assert (first.early, second.early, third.early) == (None, None, 1.0)


def test_the_measures() -> None:
    found = measures(updates_of(JOURNAL))
    assert found["in_time"] == pytest.approx(4 / 5)
    assert (found["update_s"], found["late_s"], found["early_s"]) == (3.0, 0.3, 1.0)


def test_the_number_of_actors_never_exceeds_the_slots() -> None:
    two, one = runs_of(2, 40), runs_of(1, 40)
    assert (two[CONSTANT][1], two[CHANGING][1]) == ("2", "0:1,10:2,20:1,30:2")
    assert (one[CONSTANT][1], one[CHANGING][1], one[APART][-1]) == ("1", "1", "threads=1")


def test_the_figures_are_drawn(tmp_path: Path) -> None:
    results = Results("prewarm", 1)
    for which in (CONSTANT, CHANGING, APART):
        for way in WAYS:
            results.add(case_of(which, "median update", way), "s", 3.0)
            results.followed(f"{OURS}, {way}, {which}", series(updates_of(JOURNAL)))
        judge(results, which)
    drawn = figures.draw_all(results.report(), tmp_path / "prewarm.json")
    assert len(drawn) == 3
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
