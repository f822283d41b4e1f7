"""A policy that looks at its past is played with the versions that were saved beside it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from inline_runs import commanded

import artos


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).with_name("toys_with_past.py"), tmp_path)
    return tmp_path


def test_a_run_is_played_with_its_past_and_its_best_version_says_that_it_has_none(
    folder: Path,
) -> None:
    run = folder / "run"
    settings = ("--set", "evaluate_every=9")
    begun = ("run", "toys_with_past.py:workload", "--inline", "--json", "--run-dir", run)
    ended = commanded(folder, (*begun, *settings))
    assert ended.status == 0, ended.err
    assert "evaluations on the way have no past versions: where actors have past(k)" in ended.err
    with (run / "evaluations.csv").open() as file:
        played = {row["version"]: float(row["mean_return"]) for row in csv.DictReader(file)}
    assert played["9"] == 9.0, "the version that is played stands for its past"
    # Version 9 has 8, 6 and 4 behind it.
    newest = commanded(folder, ("eval", run, "--episodes", 1, "--json"))
    assert newest.status == 0, newest.err
    assert '"mean_return":6.0' in newest.out.replace(" ", "")
    assert "note:" not in newest.err
    best = commanded(folder, ("eval", run, "--best", "--episodes", 1, "--json"))
    assert best.status == 0, best.err
    assert '"mean_return":9.0' in best.out.replace(" ", "")
    assert "note: version 9 is kept without past ones" in best.err
    trained = artos.load(run, code=folder)
    assert [(each.version, each.params.tolist()) for each in trained.bound.pasts] == [
        (8, [8.0]), (6, [6.0]), (4, [4.0])
    ]  # fmt: skip
