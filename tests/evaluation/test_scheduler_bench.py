"""The deciders and heads of ``artos bench scheduler`` decide what they are said to decide."""

from __future__ import annotations

import pytest

from evaluation.core.report import Results
from evaluation.scheduler import bench, heads
from evaluation.scheduler.deciders import SLOTS, fair, least_held, priority_queue


def test_a_quick_run_has_every_case_and_all_goals() -> None:
    results = bench.measure(1, True, lambda _: None)
    assert isinstance(results, Results)
    report = results.report()
    assert len(report.rows) == 2 * 5 * 2 + 2 * 2
    assert all(row.median is not None for row in report.rows)
    ours = [row for row in report.rows if row.goal == bench.GOAL]
    assert [row.unit for row in ours] == [bench.RATE] * 4
    goals = [ratio.goal for ratio in report.ratios if ratio.goal is not None]
    assert goals == [bench.GROWTH_GOAL] * 3


@pytest.mark.parametrize("make", [lambda n: fair(n, 4), lambda n: fair(n, n), priority_queue,
                                  lambda n: least_held(n, 4)])  # fmt: skip
def test_each_decision_hands_one_slot_on(make) -> None:
    decide = make(5 * SLOTS)
    held = next(
        cell.cell_contents
        for name, cell in zip(decide.__code__.co_freevars, decide.__closure__, strict=True)
        if name == "held"
    )
    for _ in range(200):
        before = list(held)
        decide()
        assert len(held) == len(set(held)) == SLOTS
        assert list(held)[:-1] == before[1:]


def test_as_many_runs_are_up_after_each_round_of_events() -> None:
    head = heads._Head(20)
    for number in range(20, 50):
        for _ in range(3):
            head.event()
        up = [run.name for run in head.scheduler.runs.values() if run.up and run.places]
        assert up == [f"r{n}" for n in range(number - 19, number + 1)]
