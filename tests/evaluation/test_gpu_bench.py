"""``artos bench gpu``: real learner processes hand a device on, level by level."""

from __future__ import annotations

import threading

import pytest

from artos.specs.levels import Level
from artos.system import gpus
from evaluation.core.report import Results
from evaluation.core.runner import Answer
from evaluation.gpu import bench, busy, ladder
from evaluation.sharing import bench as sharing


@pytest.mark.processes
@pytest.mark.parametrize(
    "level",
    [Level.KEEP, pytest.param(Level.TRIM, marks=pytest.mark.long), Level.PARK,
     pytest.param(Level.END, marks=pytest.mark.long)],
)  # fmt: skip
def test_two_learners_hand_the_device_on_turn_by_turn(level: Level) -> None:
    found = ladder.hand_overs("cpu", level, 4)
    assert len(found) == 2 * 4 - 1 - ladder._WARM_UP
    assert min(found) > 0, "nobody computes before the other one is done"


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started: every measurement answers at once."""
    rates = {"ms": 2.0, "update_s": 4.0, "held_device_s": 12.0, "steps_per_second": 100.0}
    copies = {**rates, "held_cpu_s": 1.0, "update_ms": 3.0, "first_s": 5.0}
    for module in (bench, sharing):
        monkeypatch.setattr(module, "ours", lambda *_, **__: lambda: Answer(copies, {}))
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: lambda: Answer(rates, {}))


def measured(monkeypatch: pytest.MonkeyPatch, count: int) -> Results:
    monkeypatch.setattr(gpus, "count", lambda: count)
    return bench.measure(1, False, lambda _: None)


@pytest.mark.usefixtures("quiet")
def test_without_a_gpu_the_table_says_cpu_and_judges_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = measured(monkeypatch, 0).report()
    assert len(report.rows) == 4 + 2 * 3 + 3 + 2 * 2 * len(bench.COMPILED_UPDATES)
    assert all("on cpu" in row.case or "that cpu " in row.case for row in report.rows)
    assert {row.goal for row in report.rows} == {None}
    shares = [row.median for row in report.rows if row.unit == "%"]
    assert shares == [25.0, 50.0, 100.0]
    assert [ratio.median for ratio in report.ratios] == [1.0] * (2 + len(bench.COMPILED_UPDATES))


@pytest.mark.usefixtures("quiet")
def test_with_a_gpu_the_ladder_has_its_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "busy_percent", lambda number: 70)
    monkeypatch.setattr(gpus, "memory_mb", lambda number, uuid: 900)
    looked = threading.Event()
    monkeypatch.setattr(busy, "_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(
        gpus,
        "busy_percent",
        lambda number: looked.set() or 70,  # type: ignore[func-returns-value]
    )
    with busy.watched() as seen:
        assert looked.wait(60)
    assert seen() == {busy.BUSY: 70}
    report = measured(monkeypatch, 1).report()
    judged = {row.goal: row.holds for row in report.rows if row.goal is not None}
    assert judged == {0.2: False, 5.0: True}
    assert all("cuda:0" in row.case for row in report.rows)
