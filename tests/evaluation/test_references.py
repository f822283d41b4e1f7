"""Bands of learning curves, bars that they reach, and how tasks are set on both sides."""

from __future__ import annotations

from importlib import import_module
from inspect import signature

import pytest

from artos.errors import ArtosError
from evaluation.core.report import OURS, missed
from evaluation.core.runner import Answer
from evaluation.references import bench
from evaluation.references.curves import PARTS, band, overlap, parts, reached
from evaluation.references.every_task import EVERY
from evaluation.references.task import Task
from triggers.algorithms import BUILT_IN


def test_a_part_without_episodes_is_as_the_one_before() -> None:
    found = parts([15, 20, 45], [1.0, 3.0, 8.0], 100, -5.0)
    assert found == [-5.0, 2.0, 2.0, 2.0, 8.0, *[8.0] * 5]
    assert len(found) == PARTS


def test_bands_overlap_where_they_have_a_point_in_common() -> None:
    one = [[0.0, 1.0, 5.0], [1.0, 2.0, 6.0]]
    assert band(one)["mean"] == [0.5, 1.5, 5.5]
    assert overlap(one, one) == 1.0
    assert overlap(one, [[1.0, 3.0, 9.0], [4.0, 4.0, 6.0]]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("curve", "steps"),
    [
        ([9.0, 1.0, 1.0, 1.0], 50.0),  # at once: in the middle of the first part
        ([0.0, 4.0, 8.0, 1.0], 200.0),
        ([0.0, 4.0, 4.0, 5.0], 350.0),
        ([0.0, 4.0, 4.0, 4.0], 400.0),  # never
    ],
)
def test_a_bar_is_reached_between_the_middles_of_two_parts(
    curve: list[float], steps: float
) -> None:
    assert reached(curve, 5.0 if curve[2] != 8.0 else 6.0, 400) == steps


def test_a_task_with_a_bar_is_judged_by_the_steps_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("toy", 1_000, 0.0, {}, {}, bench.SB3, bar=10.0)
    curves = {"ours": [0.0] * 3 + [20.0] * 7, "theirs": [0.0] * 2 + [20.0] * 8}

    def answered(side: str) -> Answer:
        return Answer({str(part): value for part, value in enumerate(curves[side])}, {})

    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: answered("ours"))
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: lambda: answered("theirs"))
    found = bench.of("toy", {"toy": task}).measure(2, False, lambda _: None).report()
    rows = {row.case: row for row in found.rows}
    assert rows[f"{bench.BAR} 10: {OURS}, toy"].median == 300
    assert rows[f"{bench.BAR} 10: {bench.SB3}, toy"].values == (200.0,) * bench.SEEDS
    judged = rows[f"{bench.SLOWER}: toy"]
    assert (judged.median, judged.holds) == (1.5, False)
    assert rows[f"{bench.OVERLAP}: toy"].holds is None


@pytest.mark.parametrize("bar", [None, 10.0])
@pytest.mark.parametrize("working", [0, 1])
def test_a_task_is_not_judged_by_fewer_seeds(
    working: int, bar: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task("toy", 1_000, 0.0, {}, {}, bench.SB3, bar=bar)
    good = Answer({str(part): 20.0 for part in range(PARTS)}, {})

    def failing() -> Answer:
        if len(asked) == working:
            raise ArtosError("it fell over")
        asked.append(1)
        return good

    asked = list[int]()
    monkeypatch.setattr(bench, "ours", lambda *_, **__: lambda: good)
    monkeypatch.setattr(bench, "baseline", lambda *_, **__: failing)
    found = bench.of("toy", {"toy": task}).measure(2, False, lambda _: None).report()
    [judged] = [row for row in found.rows if row.goal is not None]
    assert (judged.n, judged.holds, missed(found)) == (working, None, 1)
    assert judged.note == f"one of the two has {working} of {bench.SEEDS} curves"


@pytest.mark.parametrize("name", EVERY)
def test_what_is_set_of_ours_can_be_set(name: str) -> None:
    settings = EVERY[name].ours
    module, _, function = BUILT_IN[settings["algorithm"]].partition(":")
    known = signature(getattr(import_module(module), function)).parameters
    assert settings.keys() - {"algorithm"} <= known.keys()
