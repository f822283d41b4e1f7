"""What a run looks like: its panel as text, without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType
from test_view import STATUS, changed

from deploy.display import screen
from head.records.status import Status


def test_notes_are_below_the_panel_while_it_is_there() -> None:
    notes = [f"note {number}" for number in range(100)]
    picture = rendered(screen.panel(STATUS, 100, notes, ascii_only=True), 100)
    assert "note 99" in picture
    assert "note 9\n" not in picture


def rendered(picture: RenderableType, width: int) -> str:
    with io.StringIO() as stream:
        Console(file=stream, width=width, color_system=None).print(picture)
        return stream.getvalue()


@pytest.mark.parametrize("width", [80, 110, 230])
def test_the_panel_is_as_wide_as_the_terminal(width: int) -> None:
    lines = rendered(screen.panel(STATUS, width, ascii_only=True), width).splitlines()
    assert {len(line) for line in lines} == {width}
    bar = lines[1].strip("| │").split()[0]
    assert set(bar) == {"#", "."}
    assert bar.count("#") / len(bar) == pytest.approx(0.6, abs=0.05)
    assert len(bar) > width - 50


def test_who_works_and_who_waits_for_what() -> None:
    waits = {
        "learner": "running update (firing 7)", "actor 0": "version 8", "actor 1": "version 8",
        "actor 2": "running sample (firing 6)", "actor 3": "version 8",
        "actor 4": "a slot or its process",
    }  # fmt: skip
    picture = rendered(screen.panel(changed(waits=waits), 120, ascii_only=True), 120)
    said = {line.strip("│ ").rstrip() for line in picture.splitlines()}
    assert "works       learner: update   actor 2: sample" in said
    assert "waits for   actors 0-1, 3: version 8   actor 4: a slot or its process" in said


def test_other_learners_have_a_line_each() -> None:
    learners = {
        "model.version": 1200.0, "model.updates": 1200.0, "red.version": 7.0,
        "red.lag_mean": 0.25, "red.lag_max": None,
    }  # fmt: skip
    picture = rendered(screen.panel(changed(learners=learners), 120, ascii_only=True), 120)
    said = [" ".join(line.strip("│ ").split()) for line in picture.splitlines()]
    assert "model version 1,200 updates 1,200" in said
    assert "red version 7 lag mean 0.25 lag max -" in said


# -- while it starts -------------------------------------------------------------------------------


def starting(version: int = -1, **waits: str) -> Status:
    named = {name.replace("_", " "): what for name, what in waits.items()}
    return changed(steps=0, steps_per_second=0.0, version=version, waits=named)


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (starting(learner="starting", actor_0="starting"), "the learner"),
        (starting(learner="rows", actor_0="starting"), "first weights"),
        (starting(0, learner="rows", actor_0="starting", actor_1="x"), "actors, 1 of 2 are ready"),
        (starting(0, learner="rows", actor_0="running sample (firing 1)"), "first rows"),
        (starting(0, learner="rows", actor_0="x", evaluator="starting"), "first rows"),
        (STATUS, ""),
    ],
)
def test_the_start_has_phases(status: Status, phase: str) -> None:
    assert screen.phase(status) == phase
    picture = rendered(screen.panel(status, 100, ascii_only=True), 100)
    assert (f"starting: {phase}" in picture) == bool(phase)
    assert ("500,000 steps" in picture) == (not phase)


def test_a_run_that_is_limited_by_updates_is_measured_by_them() -> None:
    by_updates = changed(total_steps=0, updates=30, total_updates=120, seconds=10.0)
    assert (screen.share(by_updates), screen.seconds_left(by_updates)) == (0.25, 30.0)
    assert "300,000 steps (25%)" in screen.line(by_updates)
    assert "updates 30/120" in screen.line(by_updates)
    both = changed(updates=30, total_updates=31, seconds=10.0)
    assert screen.share(both) == 30 / 31
    assert screen.seconds_left(both) == pytest.approx(1 / 3)


def test_what_a_bound_on_age_costs_is_told() -> None:
    assert "left out" not in screen.line(STATUS)
    left_out = changed(rows_stale=1_200, empty_draws=3)
    assert "left out 1,200 rows, 3 draws found none" in screen.line(left_out)


def test_the_newest_evaluation_is_told() -> None:
    assert "evaluated" not in screen.line(STATUS)
    newest = {"version": 1_200.0, "mean_return": 481.6, "std": 36.84, "skipped": 0.0}
    evaluated = changed(evaluation=newest)
    assert "evaluated 481.6 +- 36.8 at version 1,200  " in screen.line(evaluated)
    picture = rendered(screen.panel(evaluated, 100, ascii_only=True), 100)
    assert "evaluation  481.6 +- 36.8 at version 1,200" in picture
    overtaken = changed(evaluation=newest | {"skipped": 3.0})
    assert "at version 1,200 (3 skipped)" in screen.line(overtaken)
