"""Runs are disturbed and replayed, and one that does not come out the same is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from helpers import ROOT, SUPPORT
from real_runs import TINY

from evaluation.exactness import bench
from evaluation.exactness.bench import rates
from evaluation.exactness.trial import CASES, Case, Trial, trial


@pytest.fixture(autouse=True)
def _from_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.processes
@pytest.mark.long
def test_a_run_that_is_disturbed(tmp_path: Path) -> None:
    # With this seed somebody is killed as soon as it begins.
    found = rates(trial(CASES["IMPALA"], tmp_path / "impala-36", 36, pause=1.0))
    assert not found["differs"]
    assert found["kills"] > 0
    assert found["versions"] > 0
    assert found["recorded"] > 0


@pytest.mark.processes
@pytest.mark.long
def test_a_run_that_nothing_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before anybody disturbs it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(SUPPORT / "late.py", tmp_path)
    case = Case(("ppo", "--env", "late:late", *TINY), 160)
    found = trial(case, tmp_path / "late-1", 1, pause=1e6)
    assert found.why == "actor 0 wrote other rows in steps 32 to 47"
    assert (found.kills, found.changes) == (0, 0)
    assert rates(found)["differs"]


def test_what_was_not_compared_differs() -> None:
    same = Trial("ppo-1", "done", 1, 0, 10.0, 5, True, 1_000)
    assert not rates(same)["differs"]
    for other in ({"equal": False}, {"versions": 0}, {"outcome": "status 1"}):
        assert rates(msgspec.structs.replace(same, **other))["differs"]


def test_one_run_that_differs_is_kept_and_misses_the_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The median of all runs would hide it."""

    def tried(case: Case, folder: Path, seed: int, pause: float) -> Trial:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        return Trial(folder.name, "done", 1, 0, 10.0, 5, seed not in (2, 5), 1_000, "row 3")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "trial", tried)
    monkeypatch.setattr(bench, "CASES", {"PPO, two replicas": CASES["PPO, two replicas"]})
    found = bench.measure(bench.RUNS, False, lambda _: None).report()
    [differs] = [row for row in found.rows if row.group.startswith("runs that did not")]
    assert (differs.n, differs.median, differs.holds) == (bench.RUNS, 0.0, False)
    assert "ppo-two-replicas-2: done" in differs.note
    assert "ppo-two-replicas-5: done" in differs.note
    assert (tmp_path / bench.DIFFERING / "ppo-two-replicas-2" / "config.json").exists()
