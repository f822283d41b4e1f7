"""A run's histograms: each row and episode is counted in one of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from artos.protocol.views import Status
from head.records import telling
from head.records.episodes import Ended
from head.records.telling import Telling
from head.records.tracker import Classes, Tracker


class Told(Tracker):
    """Counts what it is told, by name."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.counts: dict[str, list[int]] = {}

    def on_progress(self, step: int, values: Mapping[str, float]) -> None:
        self.rows.append(step)

    def on_histogram(self, step: int, name: str, counts: Classes) -> None:
        self.counts.setdefault(name, []).append(sum(counts.values()))

    def on_artifact(self, path: Path) -> None:
        pass

    def close(self, outcome: str) -> None:
        pass


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A histogram after each row."""
    monkeypatch.setattr(telling, "_EVERY", 1)


def test_episodes_that_ended_at_the_step_of_the_last_histogram_are_in_the_next() -> None:
    """In lock step those of several actors are reported at one step, before and after a row."""
    run = Telling(told := Told())
    run.episodes([Ended(8, 1.0, 8)])
    run.row(Status(steps=8, updates=1))
    run.episodes([Ended(8, 2.0, 8), Ended(8, 3.0, 8)])
    run.row(Status(steps=16, updates=2))
    assert told.counts["episodes/return"] == [1, 2]


def test_what_was_counted_before_a_run_was_resumed_is_not_counted_again() -> None:
    run = Telling(told := Told())
    run.resumed(Status(steps=80, updates=10, lags={"0": 90}))
    run.row(Status(steps=88, updates=11, lags={"0": 98}))
    assert told.counts["lags"] == [8]


def test_rows_of_a_run_without_steps_stand_at_their_updates() -> None:
    run = Telling(told := Told())
    for updates in (3, 7):
        run.row(Status(updates=updates))
    assert told.rows == [3, 7]
