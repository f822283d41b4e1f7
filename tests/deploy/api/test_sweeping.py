"""Sweeps: which runs there are, in which order, and what is drawn of them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import ROOT

import artos
from artos.errors import DeadlineExceeded, Refused
from artos.protocol.views import RunView
from deploy.api import sweeping
from deploy.api.running import Result, RunFailed
from deploy.cli.__main__ import main
from deploy.cli.sweep import text
from deploy.figures import questions
from deploy.figures.questions import Curve


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], int, Path]]:
    """What was run; the mean return is ``1000 * lr - seed``, and seed 3 of a large step fails."""
    runs: list[tuple[dict[str, Any], int, Path]] = []

    def run_named(workload: str, settings: Any, seed: int, folder: Path, **options: Any) -> Result:
        runs.append((dict(settings), seed, folder))
        if settings["lr"] > 0.01 and seed == 3:
            raise RunFailed(folder, "NotFinite: loss is nan")
        folder.mkdir()
        summary = {"outcome": "done", "mean_return_100": 1000 * settings["lr"] - seed, "steps": 9}
        (folder / "summary.json").write_bytes(msgspec.json.encode(summary))
        if seed < 3:
            (folder / "episodes.csv").write_text("step,return,length\n1,0.5,1\n2,1.5,1\n")
        return Result(folder, summary)

    monkeypatch.setattr(sweeping, "run_named", run_named)
    return runs


def swept(folder: Path, **more: Any) -> sweeping.Sweep:
    grid = {"lr": [0.001, 0.1]}
    return artos.sweep("ppo", grid=grid, seeds=3, at_once=2, folder=folder, gamma=0.9, **more)


def test_every_combination_is_run_with_every_seed(begun: Any, tmp_path: Path) -> None:
    said: list[str] = []
    found = swept(tmp_path / "s", say=said.append)
    assert len(begun) == len(found.runs) == len(said) == 6
    assert {(run["lr"], run["gamma"], seed) for run, seed, _ in begun} == {
        (lr, 0.9, seed) for lr in (0.001, 0.1) for seed in (1, 2, 3)
    }
    assert len({folder for _, _, folder in begun}) == 6
    assert [run.settings["lr"] for run in found.runs] == [0.1] * 3 + [0.001] * 3, "the best first"
    assert [run.seed for run in found.runs] == [1, 2, 3] * 2
    failed = found.runs[2]
    assert (failed.outcome, failed.mean_return_100) == ("failed", None)
    assert "NotFinite" in failed.why
    assert Path(found.figure).stat().st_size > 1000


@pytest.mark.usefixtures("begun")
def test_a_curve_says_of_how_many_runs_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def draw_curves(axes: Any, curves: Sequence[Curve], below: str, beside: str) -> None:
        drawn.extend(curve.label for curve in curves)

    monkeypatch.setattr(questions, "draw_curves", draw_curves)
    swept(tmp_path / "s")
    assert [label.partition(" ")[2] for label in drawn[-2:]] == ["(2 of 3 runs)"] * 2


def test_the_command_prints_a_list_of_runs(
    begun: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("sweep", "ppo", "--grid", "lr=0.001,0.01", "--seeds", "2", "--at-once", "1")
    assert main([*words, "--folder", str(tmp_path / "s"), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [run["settings"] for run in runs] == [{"lr": 0.01}] * 2 + [{"lr": 0.001}] * 2
    assert [run["mean_return_100"] for run in runs] == [9.0, 8.0, 0.0, -1.0]
    assert all(Path(run["folder"]).name == run["name"] for run in runs)
    assert (tmp_path / "s" / "sweep.csv").exists()


def test_the_table_has_a_line_for_each_choice_with_its_spread(begun: Any, tmp_path: Path) -> None:
    found = swept(tmp_path / "s")
    lines = [line.split() for line in text(found).splitlines()]
    assert lines[1] == ["lr=0.1", "3", "98.5", "98.0", "99.0", "1"]
    assert lines[2] == ["lr=0.001", "3", "-1.0", "-2.0", "0.0"]
    with Path(found.table).open() as file:
        rows = [*csv.DictReader(file)]
    assert [row["seed"] for row in rows] == ["1", "2", "3"] * 2
    assert rows[2]["outcome"] == "failed"


def test_runs_that_are_done_are_not_repeated(begun: Any, tmp_path: Path) -> None:
    swept(tmp_path / "s")
    begun.clear()
    found = swept(tmp_path / "s")
    assert [(run["lr"], seed) for run, seed, _ in begun] == [(0.1, 3)], "the one that failed"
    assert len(found.runs) == 6


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (lambda folder: artos.sweep("dqn", seeds=3, folder=folder, gamma=0.9), "workload was ppo"),
        (lambda folder: swept(folder, env="Acrobot-v1"), "env was not given"),
    ],
)
def test_runs_of_another_sweep_are_not_taken_for_its_own(
    second: Callable[[Path], Any], told: str, begun: Any, tmp_path: Path
) -> None:
    swept(tmp_path / "s")
    begun.clear()
    with pytest.raises(Refused, match=f"of another sweep .*{told}"):
        second(tmp_path / "s")
    assert begun == []
    swept(tmp_path / "s", deadline=600.0)  # which changes no result


def test_a_sweep_of_changed_code_is_another_one(
    begun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("workload = None\n")

    def again() -> sweeping.Sweep:
        common: Any = {"lr": 0.001}
        return sweeping.sweep_named(
            "mine.py:workload", {}, 1, 1, Path("s"), None, lambda said: None, common
        )

    again()
    again()
    assert len(begun) == 1
    Path("mine.py").write_text("workload = 1\n")
    with pytest.raises(Refused, match=r"of another sweep \(mine\.py was sha256"):
        again()


def test_a_sweep_with_other_packages_is_another_one(tmp_path: Path) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text("numpy==2.0\n")
    swept(tmp_path / "s", cluster=Far(), packages=listed)
    swept(tmp_path / "s", cluster=Far(), packages=str(listed))
    listed.write_text("numpy==2.1\n")
    with pytest.raises(Refused, match=r"of another sweep .*requirements\.txt was sha256"):
        swept(tmp_path / "s", cluster=Far(), packages=listed)


def test_a_folder_of_other_runs_is_left_alone(begun: Any, tmp_path: Path) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "config.json").touch()
    with pytest.raises(Refused, match="it has other runs"):
        swept(tmp_path / "runs")
    assert begun == []


def test_what_is_refused_ends_the_sweep(begun: Any, tmp_path: Path) -> None:
    for wrong in ({"seeds": 0}, {"grid": {"lr": []}}):
        with pytest.raises(Refused):
            artos.sweep("ppo", folder=tmp_path / "s", **wrong)  # type: ignore[arg-type]
    assert begun == []


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({"epochs": "12"}, "epochs: give a list of values, not '12'"),
        ({"lr": 0.1}, "lr: give a list of values, not 0.1"),
        ({"lr": {0.1, 0.2}}, "lr: give a list of values"),
        ({"lr": np.array(0.1)}, "lr: give a list of values"),
        ({"lr": np.array([])}, "lr: give one value or more"),
        ({"lr": [1e-3, 0.001]}, "lr: a value is given twice"),
        ({"env": [print, "a:make"]}, "^environment <built-in function print>: give a name"),
        ({"device": ["cpu", "cuda\0"]}, "device: .* has a NUL"),
        ({"seed": [1, 2]}, "seed: give seeds="),
    ],
)
def test_a_grid_is_of_lists_whose_values_have_folders_of_their_own(
    grid: Any, told: str, begun: Any, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=told) as caught:
        artos.sweep("ppo", folder=tmp_path / "s", grid=grid)
    assert len(caught.value.faults) == 1
    assert not begun
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "grids",
    [
        [{"env": ["a:make", "a_make", "a/make", "a%3Amake"]}],
        [{"env": ["a:make"]}, {"env": ["a_make"]}],
        [{"a": ["x", "x-b=1"], "b": ["1", "1-b=1"]}],
        [{"lr": [1, 1.0]}],
    ],
)
def test_each_choice_has_a_folder_of_its_own(grids: Any, begun: Any, tmp_path: Path) -> None:
    for grid in grids:
        artos.sweep("ppo", folder=tmp_path / "s", grid={"lr": [0.001], **grid}, seeds=1)
    choices = [math.prod(map(len, grid.values())) for grid in grids]
    assert len({folder for *_, folder in begun}) == len(begun) == sum(choices)


def test_a_folder_has_a_name_that_fits_whatever_is_chosen(begun: Any, tmp_path: Path) -> None:
    grid: Any = {"lr": [0.001], "hidden": [[64] * 200, [64] * 201], "env": ["é" * 300, "a/" * 300]}
    artos.sweep("ppo", folder=tmp_path / "s", grid=grid, seeds=1)
    names = {folder.name.encode() for *_, folder in begun}
    assert len(names) == 4
    assert max(map(len, names)) < 256


def test_a_setting_may_have_the_name_of_an_argument_of_others(begun: Any, tmp_path: Path) -> None:
    grid: Any = {"lr": [0.001], "grid": [4, 8], "where": ["left"], "say": [1]}
    artos.sweep("ppo", folder=tmp_path / "s", grid=grid, seeds=1, on_disk=3)
    assert [settings["grid"] for settings, *_ in begun] == [4, 8]


def test_all_wrong_arguments_are_told_at_once(begun: Any, tmp_path: Path) -> None:
    wrong: dict[str, Any] = {
        "grid": [1], "seeds": "3", "at_once": None, "folder": 4, "cluster": 5, "say": "loud",
        "env": print, "track": 3, "env_args": [1], "deadline": "soon",
    }  # fmt: skip
    with pytest.raises(Refused) as caught:
        artos.sweep(Path, **wrong)
    told = [fault.partition(" ")[0].strip(":") for fault in caught.value.faults]
    assert sorted(told) == sorted(["Path", "environment", *wrong.keys() - {"env"}])
    assert not begun


def test_a_grid_may_be_of_arrays_and_of_lists(begun: Any, tmp_path: Path) -> None:
    grid: Any = {"lr": np.array([0.001, 0.002]), "hidden": ([64, 64], [64])}
    artos.sweep("ppo", folder=tmp_path / "s", grid=grid, seeds=1)
    chosen = sorted((settings["lr"], settings["hidden"]) for settings, *_ in begun)
    assert chosen == [(lr, hidden) for lr in (0.001, 0.002) for hidden in ([64], [64, 64])]


@pytest.mark.parametrize("name", ["inline", "run_dir", "seed", "on_progress"])
def test_what_a_sweep_does_not_take_is_refused_by_its_name(
    name: str, begun: Any, tmp_path: Path
) -> None:
    given: dict[str, Any] = {name: 1}
    with pytest.raises(Refused, match=f"^{name}: "):
        artos.sweep("ppo", folder=tmp_path / "s", **given)


def test_a_run_that_is_refused_after_others_began_has_failed(
    begun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_named = sweeping.run_named

    def refuse(workload: str, settings: Any, *more: Any, **options: Any) -> Result:
        if settings["lr"] < 0:
            raise Refused(["lr must be above 0"])
        return run_named(workload, settings, *more, **options)

    monkeypatch.setattr(sweeping, "run_named", refuse)
    words = ("sweep", "ppo", "--seeds", "2", "--at-once", "1", "--folder", str(tmp_path / "s"))
    assert main([*words, "--grid", "lr=0.001,-5,0.002"]) == 1
    said = capsys.readouterr()
    assert "lr=-5-seed2: failed, mean return - (lr must be above 0)" in said.err
    assert "nothing was started" not in said.err
    assert len(begun) == 4
    with (tmp_path / "s" / "sweep.csv").open() as file:
        outcomes = {row["lr"]: row["outcome"] for row in csv.DictReader(file)}
    assert outcomes == {"0.001": "done", "-5": "failed", "0.002": "done"}
    begun.clear()
    assert main([*words, "--grid", "lr=-5,0.003"]) == 2, "the first is refused, nothing has begun"
    assert begun == []


def test_of_a_sweep_that_is_refused_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any, **__: Any) -> Result:
        raise Refused(["unknown setting 'lr'"])

    monkeypatch.setattr(sweeping, "run_named", refuse)
    with pytest.raises(Refused, match="unknown setting"):
        swept(tmp_path / "s")
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match=r"--folder .*: Not a directory"):
        swept(tmp_path / "file" / "s")
    assert not (tmp_path / "s").exists()
    (tmp_path / "s").mkdir()
    for _ in range(2):
        with pytest.raises(Refused, match="unknown setting"):
            swept(tmp_path / "s")
    assert [*(tmp_path / "s").iterdir()] == []


class Far:
    """A cluster whose runs are done at once, and whose files cannot be copied."""

    def submit(self, workload: str, *, run_dir: str, **settings: Any) -> str:
        return run_dir

    def list(self) -> tuple[RunView, ...]:
        return ()

    def over(self, run: str) -> bool:
        return True

    def wait(self, run: str) -> Result:
        return Result(Path("/there"), {"outcome": "done", "mean_return_100": 7.0, "steps": 9})

    def get(self, run: str, place: Path) -> None:
        raise DeadlineExceeded("the head", 15.0)


def test_a_run_whose_files_cannot_be_copied_ends_no_other(tmp_path: Path) -> None:
    found = swept(tmp_path / "s", cluster=Far())
    assert [run.mean_return_100 for run in found.runs] == [7.0] * 6
    assert all("not copied, artos get s-lr-" in run.why for run in found.runs)


def test_a_sweep_that_is_refused_leaves_the_folder_that_of_the_one_before(
    begun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(tmp_path / "s")

    def refuse(*_: Any, **__: Any) -> Result:
        raise Refused(["lr must be above 0"])

    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "run_named", refuse)
        with pytest.raises(Refused, match="lr must be"):
            artos.sweep("ppo", grid={"lr": [-5]}, seeds=1, folder=tmp_path / "s", gamma=0.9)
    assert len(swept(tmp_path / "s", weight=2.0).runs) == 6


def test_at_once_is_refused_with_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "ppo", "--at-once", "2", "--head", "tcp://127.0.0.1:1"]) == 2
    assert "the cluster's queue decides" in capsys.readouterr().err


PLACED = ("--where", "avx512", "--where", "room=b", "--placement", "pack", "--packages", "list.txt")


def test_where_the_runs_are_and_what_they_need_is_told_to_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    class Near(Far):
        def submit(self, workload: str, *, run_dir: str, **settings: Any) -> str:
            told.append(settings)
            return run_dir

    monkeypatch.setattr("deploy.api.cluster.Cluster", lambda *_: nullcontext(Near()))
    to = ("--head", "tcp://127.0.0.1:1", "--folder", str(tmp_path / "s"))
    assert main(["sweep", "ppo", "--seeds", "1", *PLACED, *to]) == 0
    (settings,) = told
    assert settings["where"] == ["avx512", "room=b"]
    assert (settings["placement"], settings["packages"]) == ("pack", Path("list.txt"))


def test_only_a_cluster_places_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "ppo", *PLACED, "--folder", str(tmp_path / "s")]) == 2
    told = "--placement, --where, --packages: only of runs that a cluster has: name one with --head"
    assert told in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.processes
@pytest.mark.long
def test_a_sweep_of_real_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = artos.sweep(
        "ppo", env="CartPole-v1", total_steps=1_024, grid={"lr": [1e-3, 3e-4]}, seeds=2,
        folder="s", actors=1,
    )  # fmt: skip
    assert [run.outcome for run in found.runs] == ["done"] * 4
    assert all(run.steps == 1_024 for run in found.runs)
