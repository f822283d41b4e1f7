"""What is asked of an engine that takes workers away, whether or not it could be measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from artos.errors import ArtosError
from evaluation.core.report import goal, holds
from evaluation.engines import bench


def test_lost_rows_and_long_waits_are_judged_in_each_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextlib.contextmanager
    def nowhere(*_: object) -> Iterator[None]:
        raise ArtosError("there is no Slurm here")
        yield

    monkeypatch.setattr(bench, "places", nowhere)
    monkeypatch.setattr(bench, "alternate", lambda *_: None)
    report = bench.measure(3, True, lambda _: None).report()
    asked = [(row.contestant, goal(row), holds(row)) for row in report.rows if row.goal is not None]
    assert asked == [
        (f"{engine}, workers taken away", most, "not measured")
        for engine in ("Slurm", "Ray")
        for most in ("each ≤ 2", "each ≤ 0")
    ]
