"""The paper's tables and figures again: what is measured, and what stands beside it."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from evaluation.core.report import OURS, Results
from evaluation.elasticity.adaptive import Update
from evaluation.paper import curves, figure_2, figure_3, said, table_4, table_6
from evaluation.paper.artos_accuracy import points_of
from evaluation.paper.curves import Point
from evaluation.paper.utilisation import watched

PNG = b"\x89PNG"


def point(seconds: float, episodes: int, value: float) -> Point:
    return Point(seconds, 100 * seconds, 10 * seconds, episodes, value, 2.0, 1.0, 0.5, 0.25)


def test_a_bar_is_reached_once_enough_episodes_have_ended() -> None:
    curve = [point(1, 5, 9.0), point(2, 20, -3.0), point(3, 40, 1.0), point(4, 60, 2.0)]
    there = curves.rates(curve, 1.0, 60.0)
    assert (there["time_s"], there["steps"], there["updates"], there["best"]) == (3, 300, 30, 2.0)
    assert there["held_cpu_s"] == 2.0


def test_a_run_that_does_not_reach_the_bar_counts_with_the_limit_and_has_no_costs() -> None:
    never = curves.rates([point(1, 5, 9.0), point(4, 60, 2.0)], 3.0, 60.0)
    assert (never["time_s"], never["best"], never["update_s"]) == (60.0, 2.0, 0.1)
    assert never.keys().isdisjoint({"steps", *curves.COSTS})


def test_what_no_episode_has_told_is_absent() -> None:
    assert "best" not in curves.rates([point(1, 5, -math.inf)], 1.0, 60.0)


def test_points_are_kept(tmp_path: Path) -> None:
    path, curve = tmp_path / "curve.json", [point(1, 5, -math.inf), point(2, 20, 1.5)]
    curves.write(curve, path)
    assert curves.read(path) == curve


def test_a_run_tells_its_points_while_its_last_line_is_written(tmp_path: Path) -> None:
    progress = tmp_path / "progress.csv"
    assert [*points_of(progress, 1.0)] == []
    head = "seconds,steps,updates,episodes,mean_return_100,usage/cpu_seconds_held\n"
    progress.write_text(f"{head}0.5,100,1,0,,\n1.5,200,2,20,3.5,2.5\n2.5,30")
    first, second = points_of(progress, 1.0)
    assert (first.seconds, first.mean_return) == (1.5, -math.inf)
    assert second == Point(2.5, 200, 2, 20, 3.5, 2.5, 0.0, 0.0, 0.0)


@pytest.mark.processes
def test_what_processes_use_is_seen() -> None:
    busy = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    with watched(1) as seen:
        subprocess.run([sys.executable, "-S", "-c", busy], check=True, timeout=60)
    assert max(seen.percent) > 0
    assert seen.seconds == sorted(seen.seconds)


def test_the_start_is_not_held_against_what_is_used() -> None:
    first = Update(0, 16, 20.0, 1.0, 0.0, 0.0, 3.0, 24.0, 48.0, 30.0)
    second = Update(1, 16, 0.0, 1.0, 0.0, 0.0, 3.0, 4.0, 56.0, 32.0)
    assert figure_2._kept([first, second]) == 25.0


def test_the_number_of_actors_grows_by_four() -> None:
    assert table_6.Size(40).schedule == "4:0,8:5,12:10,16:15,20:20,24:25,28:30,32:35"
    assert table_6.Size(200).schedule.endswith("28:150,32:175")


def test_what_the_paper_errs_in_is_said_beside_its_figures() -> None:
    results = Results("toy", 1)
    told = (*said.TABLE_2, *said.TABLE_4, *said.TABLE_6, *said.FIGURE_2, *said.FIGURE_5)
    results.add("a", "s", 1.0)
    results.add("b", "s", 2.0)
    said.beside(results, told, {said.TABLE_4[0].case: ("a", "b")})
    rows = {row.case: row for row in results.report().rows}
    assert len(rows) == len(told) + 3, "no two of one name"
    assert rows[f"{said.TABLE_4[0].case}: {said.HERE}"].median == 0.5
    sac = rows["time to the bar, SAC on Pong, ARTOS over Ray: the paper's"]
    assert sac.median == pytest.approx(0.5747, abs=1e-4)
    assert "57.47 % of Ray's time remain" in sac.note


def test_tasks_are_alike_on_both_sides() -> None:
    """Every number that a run of ours is given, the script with Ray is given, too."""
    for task in table_4.TASKS:
        mine = dict(word.removeprefix("--set=").split("=") for word in task.ours if "=" in word)
        pairs = dict(zip(task.theirs[::2], task.theirs[1::2], strict=True))
        for name in ("envs", "steps", "epochs", "minibatches", "batch", "ratio", "after", "sync"):
            assert mine.get(name) == pairs.get(f"--{name}"), (task.name, name)


def test_no_two_rows_have_one_name() -> None:
    rows = [
        table_4.case(task, measure, who)
        for task in table_4.TASKS
        for measure, _ in task.measures.values()
        for who in (OURS, table_4.RAY)
    ]
    assert len(rows) == len({*rows})


def test_figures_are_drawn_from_what_repetitions_left(tmp_path: Path) -> None:
    results = Results("paper-table-6", 2)
    size = table_6.FULL[1]
    for who, kind, shift in [
        (who, kind, shift)
        for who in (OURS, "Ray")
        for kind in ("start", "sample", "transfer", "wait", "learn")
        for shift in (0.0, 1.0)
    ]:
        name = f"{who}, {size.updates} updates, {kind}"
        results.kept.setdefault(name, []).append([1.0 + shift, 2.0 + shift, 3.0])
    for who in (OURS, "Ray"):
        shades = table_6._shades(results, who, size)
        assert shades["learn, smallest"] == [1.0, 2.0, 3.0]
        assert shades["learn, largest"] == [2.0, 3.0, 3.0]
        results.followed(f"{who}, 40 updates", shades)
    made = table_6.draw(results.report(), tmp_path / "a.json")
    returns = {"seconds": [1.0, 2.0], "updates": [1.0, 2.0], "return": [0.0, 1.0]}
    results.followed(f"{OURS}, PPO on Pong, seed 1", returns)
    results.followed(f"{figure_3.ADAPTIVE}, seed 1", returns)
    percent = {"seconds": [1.0], "percent": [50.0]}
    results.followed(f"{OURS}, 16 actors, utilisation", percent)
    for number, draw in enumerate((table_4.draw, figure_3.draw, figure_2.draw)):
        made += draw(results.report(), tmp_path / f"{number}.json")
    assert [path.read_bytes()[:4] for path in made] == [PNG] * 4


def test_the_rows_of_a_quick_run_are_those_of_a_long_one() -> None:
    fixed = [name for name in figure_3.NUMBERS if name != figure_3.ADAPTIVE]
    cases = [*chain.from_iterable(figure_3._cases(name).values() for name in fixed)]
    assert len({case for case, _ in cases}) == 3 * len(fixed)
