"""Bands of learning curves, bars that they reach, and how tasks are set on both sides."""

from __future__ import annotations

import math
from importlib import import_module
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from artos.errors import ArtosError
from evaluation.core.report import OURS, missed, read_json, write_json
from evaluation.core.runner import Answer
from evaluation.references import artos_side, bench
from evaluation.references.curves import PARTS, band, gained, kept_up, parts, reached
from evaluation.references.every_task import EVERY
from evaluation.references.task import SB3, Task
from head.records.episodes import Episodes
from triggers.algorithms import BUILT_IN


def test_a_part_without_episodes_is_as_the_one_before() -> None:
    found = parts([15, 20, 45], [1.0, 3.0, 8.0], 100, -5.0)
    assert found == [-5.0, 2.0, 2.0, 2.0, 8.0, *[8.0] * 5]
    assert len(found) == PARTS


def test_ours_keeps_up_where_its_band_is_not_below_theirs() -> None:
    ours = [[0.0, 1.0, 5.0, 9.0], [1.0, 2.0, 6.0, 8.0], [5.0, 2.0, 7.0, 9.0]]
    theirs = [[1.0, 3.0, 9.0, 2.0], [4.0, 4.0, 6.0, 1.0], [4.0, 3.0, 8.0, 0.0]]
    found = band(ours)
    assert (found["mean"][:2], found["median"][:2]) == ([2.0, 5 / 3], [1.0, 2.0])
    assert kept_up(ours, ours) == 1.0
    assert kept_up(ours, theirs) == 3 / 4


def test_what_is_gained_counts_from_the_lowest_return() -> None:
    assert gained([[-1_600.0, -400.0], [-1_600.0, -800.0]], -1_600.0) == 500.0


@pytest.mark.parametrize(
    ("curve", "steps"),
    [
        ([9.0, 1.0, 1.0, 1.0], 50.0),  # at once: in the middle of the first part
        ([0.0, 4.0, 8.0, 1.0], 200.0),
        ([0.0, 4.0, 4.0, 5.0], 350.0),
        ([0.0, 4.0, 4.0, 4.0], math.inf),
    ],
)
def test_a_bar_is_reached_between_the_middles_of_two_parts(
    curve: list[float], steps: float
) -> None:
    assert reached(curve, 5.0 if curve[2] != 8.0 else 6.0, 400) == steps


def test_a_task_with_a_bar_is_judged_by_the_steps_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("toy", 1_000, 0.0, {}, {}, SB3, bar=10.0)
    curves = {"ours": [0.0] * 3 + [20.0] * 7, "theirs": [0.0] * 2 + [20.0] * 8}

    def answered(side: str) -> Answer:
        return Answer({str(part): value for part, value in enumerate(curves[side])}, {})

    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: answered("ours"))
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: lambda: answered("theirs"))
    found = bench.of("toy", {"toy": task}).measure(bench.SEEDS, False, lambda _: None).report()
    rows = {row.case: row for row in found.rows}
    assert rows[f"{bench.BAR} 10: {OURS}, toy"].median == 300
    assert rows[f"{bench.BAR} 10: {SB3}, toy"].values == (200.0,) * bench.SEEDS
    judged = rows[f"{bench.SLOWER}: toy"]
    assert (judged.median, judged.holds) == (1.5, False)
    assert rows[f"{bench.ABREAST}: toy"].holds is None
    assert rows[f"{bench.HEIGHT}: toy"].holds is None


@pytest.mark.parametrize(
    ("ours", "theirs", "height", "holds"),
    [
        # Two that fail make the band wide, so it overlaps, but what is gained tells.
        ((12.0, 2.0, 12.0, 2.0, 12.0), 10.0, 0.8, False),
        ((12.0, 8.0, 9.0, 9.0, 9.0), 10.0, 0.94, True),
        ((12.0, 12.0, 12.0, 12.0, 12.0), 0.0, None, None),  # theirs has told of no episode
    ],
)
def test_whole_curves_are_as_high(
    ours: tuple[float, ...], theirs: float, height: float | None, holds: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    task, left = Task("toy", 1_000, 0.0, {}, {}, SB3), iter(ours)

    def answered(value: float) -> Answer:
        return Answer(dict.fromkeys(map(str, range(PARTS)), value), {})

    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: answered(next(left)))
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: lambda: answered(theirs))
    found = bench.of("toy", {"toy": task}).measure(bench.SEEDS, False, lambda _: None).report()
    rows = {row.case: row for row in found.rows}
    assert rows[f"{bench.ABREAST}: toy"].holds
    told = rows[f"{bench.HEIGHT}: toy"]
    assert (told.median, told.holds) == (pytest.approx(height) if height else None, holds)


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "holds"),
    [
        ([0.0, 9.0], [0.0, 20.0], math.inf, False),
        ([0.0, 9.0], [0.0, 9.0], math.inf, False),
        ([0.0, 20.0], [0.0, 9.0], 0.5, True),
    ],
)
def test_a_bar_that_is_never_reached(
    ours: list[float], theirs: list[float], ratio: float, holds: bool,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    halves = {"ours": ours, "theirs": theirs}
    task = Task("toy", 1_000, 0.0, {}, {}, SB3, bar=10.0)

    def answered(side: str) -> Answer:
        low, high = halves[side]
        return Answer({str(part): low if part < 5 else high for part in range(PARTS)}, {})

    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: answered("ours"))
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: lambda: answered("theirs"))
    measured = bench.of("toy", {"toy": task})
    report = measured.measure(bench.SEEDS, False, lambda _: None).report()
    rows = {row.case: row for row in report.rows}
    judged = rows[f"{bench.SLOWER}: toy"]
    assert (judged.median, judged.holds) == (ratio, holds)
    case = f"{bench.BAR} 10: {OURS}, toy"
    assert rows[case].note == ("" if holds else "not reached by 5 of 5 seeds")
    write_json(report, tmp_path / "toy.json")
    again = read_json(tmp_path / "toy.json")
    for each in (report, again):
        assert all(path.exists() for path in measured.draw(each, tmp_path / "toy.json"))
    (kept,) = (row for row in again.rows if row.case == judged.case)
    assert (kept.median is None, kept.holds) == (not holds, holds)


def test_a_quick_run_reaches_a_bar_in_the_steps_that_it_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curve = {str(part): 20.0 for part in range(PARTS)}
    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: Answer(curve, {}))
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: lambda: Answer(curve, {}))
    for bar in (None, 10.0):
        task = Task("toy", 1_000, 0.0, {}, {}, SB3, bar=bar)
        quick = bench.of("toy", {"toy": task}).measure(2, True, lambda _: None).report()
        at = [row.median for row in quick.rows if row.case.startswith(bench.BAR)]
        assert at == [bench.QUICK_STEPS / PARTS / 2] * len(at)


def test_episodes_end_where_others_count_them() -> None:
    # Rows that only reset count in a run, and its rounds are of four rows.
    one = Episodes(np.array([4.0, 12.0]), np.zeros(2), np.array([3.0, 6.0]))
    assert artos_side._ends(one, {"actors": 1, "envs": 1, "steps": 4}) == [3.0, 9.0]
    assert artos_side._ends(one, {"actors": 1, "envs": 2, "steps": 4}) == [1.0, 9.0]


@pytest.mark.parametrize("bar", [None, 10.0])
@pytest.mark.parametrize("working", [0, 1])
def test_a_task_is_not_judged_by_fewer_seeds(
    working: int, bar: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task("toy", 1_000, 0.0, {}, {}, SB3, bar=bar)
    good = Answer({str(part): 20.0 for part in range(PARTS)}, {})

    def failing() -> Answer:
        if len(asked) == working:
            raise ArtosError("it fell over")
        asked.append(1)
        return good

    asked = list[int]()
    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: good)
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: failing)
    found = bench.of("toy", {"toy": task}).measure(bench.SEEDS, False, lambda _: None).report()
    judged = [row for row in found.rows if row.goal is not None]
    assert len(judged) == missed(found) == (2 if bar is None else 1)
    for row in judged:
        assert (row.n, row.holds) == (working, None)
        assert row.note == f"one of the two has {working} of {bench.SEEDS} curves"


@pytest.mark.parametrize("name", EVERY)
def test_what_is_set_of_ours_can_be_set(name: str) -> None:
    settings = EVERY[name].ours
    module, _, function = BUILT_IN[settings["algorithm"]].partition(":")
    known = signature(getattr(import_module(module), function)).parameters
    assert settings.keys() - {"algorithm"} <= known.keys()
