"""Where rows, episodes and evaluations of a run stand on the axes of its curves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from artos.protocol.views import Status
from deploy.dashboard.curves import curves
from head.records.evaluations import Evaluated
from head.records.progress_log import ProgressLog
from head.records.run_folder import RunFolder

CONFIG = {"workload": "ppo", "folder": "", "settings": {}, "algorithm": "ppo", "env": "CartPole-v1"}
LEARNS, GOES_ON = (
    [(0, 2, 1.0), (0, 4, 2.0), (0, 6, 3.0)],
    [(50, 1, 1.0), (100, 2, 2.0), (100, 4, 6)],
)


def made(root: Path, rows: list[tuple[int, int, float]]) -> dict[str, Path]:
    """A run with rows of progress at these steps, updates and seconds, and evaluations there."""
    with RunFolder.create(root / "r", CONFIG) as folder, ProgressLog(folder) as log:
        log.episodes((steps, 1.0, 1) for steps in sorted({steps for steps, *_ in rows} - {0}))
        for steps, updates, seconds in rows:
            status = Status("ppo", "CartPole-v1", seconds=seconds, steps=steps, updates=updates)
            log.write(status)
            log.evaluated([Evaluated(updates, steps, updates, 5.0, 0.0, 1, 9.0, 0.1)])
    return {"r": root / "r"}


@pytest.mark.parametrize(
    ("rows", "across", "below", "places"),
    [
        (LEARNS, "steps", "updates", [2, 4, 6]),
        (LEARNS, "updates", "updates", [2, 4, 6]),
        (LEARNS, "seconds", "seconds", [1, 2, 3]),
        (GOES_ON, "steps", "steps", [50, 100, 100]),
        (GOES_ON, "updates", "updates", [1, 2, 4]),
        (GOES_ON, "seconds", "seconds", [1, 2, 6]),
    ],
)
def test_rows_and_evaluations_stand_at_the_same_places(
    rows: list[tuple[int, int, float]], across: str, below: str, places: list[float], tmp_path: Path
) -> None:
    found = curves(made(tmp_path, rows), "updates", across)
    assert (found.across, found.curves[0].x) == (below, places)
    found = curves({"r": tmp_path / "r"}, across=across)
    assert found.across == below
    assert [at for at, *_ in found.evaluations["r"]] == pytest.approx(places)


def billed(folder: Path, rows: list[tuple[float, float, float]]) -> dict[str, Path]:
    """A run whose progress has these seconds, and sums of seconds held and waited."""
    with RunFolder.create(folder / "r", CONFIG) as made, ProgressLog(made) as log:
        for number, (seconds, held, waited) in enumerate(rows, 1):
            usage = {"cpu_seconds_held": held, "waits/slot": waited}
            status = Status("ppo", "CartPole-v1", seconds=seconds, steps=number, updates=number)
            log.write(msgspec.structs.replace(status, usage=usage))
    return {"r": folder / "r"}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param([2.0, 2.0, 4.0, 4.0, 6.0, 6.0], id="a row of two has the sums of before"),
        pytest.param([1.5, 2.0, 3.5, 4.0, 5.5, 6.0], id="two nodes, each counts once a second"),
    ],
)
def test_what_a_run_holds_at_a_time_is_right_however_often_it_is_counted(
    held: list[float], tmp_path: Path
) -> None:
    rows = [(0.5 * n, each, 0.0) for n, each in enumerate(held, 2)]
    found = curves(billed(tmp_path, [*rows, (4.4, 6.0, 0.0), (5.0, 6.5, 0.0)]), "held/cpus")
    (curve,) = found.curves
    assert set(curve.y[1:-1]) == {2.0}
    assert "held/cpus" in found.columns


def test_what_a_run_holds_is_a_curve_over_time_also_once_it_is_over(tmp_path: Path) -> None:
    """Its progress has sums of seconds; a last row without time tells of none."""
    rows = [(2.0, 4.0, 0.5), (4.0, 4.0, 1.5), (4.0, 4.0, 1.5), (8.0, 5.0, 1.5)]
    billed(tmp_path, rows)
    found = curves({"r": tmp_path / "r"}, "held/cpus", "seconds")
    assert {"held/cpus", "waiting/slot"} < {*found.columns}
    assert (found.curves[0].x, found.curves[0].y) == ([2.0, 4.0, 8.0], [2.0, 0.0, 0.25])
    (waits,) = curves({"r": tmp_path / "r"}, "waiting/slot", "seconds").curves
    assert waits.y == [0.25, 0.5, 0.0]
    progress = tmp_path / "r" / "progress.csv"
    progress.write_text(f"{(text := progress.read_text())}{text.splitlines()[-1]}\n")
    again = curves({"r": tmp_path / "r"}, "held/cpus", "seconds")
    assert (again.columns, again.curves) == (found.columns, found.curves)


@pytest.mark.parametrize(("across", "places"), [("updates", [1, 2]), ("seconds", [1, 2])])
def test_the_last_episodes_stand_where_they_ended_though_the_run_goes_on(
    across: str, places: list[float], tmp_path: Path
) -> None:
    found = curves(made(tmp_path, GOES_ON), across=across)
    assert found.curves[0].x == pytest.approx(places)
