"""Runs are disturbed and replayed, and one that does not come out the same is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from helpers import ROOT, SUPPORT
from real_runs import TINY

from evaluation.exactness.bench import rates
from evaluation.exactness.trial import CASES, Case, Trial, trial

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture(autouse=True)
def _from_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_run_that_is_disturbed(tmp_path: Path) -> None:
    # With this seed somebody is killed as soon as it begins.
    found = rates(trial(CASES["IMPALA"], tmp_path / "impala-36", 36, pause=1.0))
    assert not found["differs"]
    assert found["kills"] > 0
    assert found["versions"] > 0
    assert found["recorded"] > 0


def test_a_run_that_nothing_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before anybody disturbs it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(SUPPORT / "late.py", tmp_path)
    case = Case(("ppo", "--env", "late:late", *TINY), 160)
    found = trial(case, tmp_path / "late-1", 1, pause=1e6)
    assert found.why == "actor 0 wrote other rows in steps 32 to 47"
    assert (found.kills, found.scalings) == (0, 0)
    assert rates(found)["differs"]


def test_what_was_not_compared_differs() -> None:
    same = Trial("ppo-1", "done", 1, 0, 10.0, 5, True, 1_000)
    assert not rates(same)["differs"]
    for other in ({"equal": False}, {"versions": 0}, {"outcome": "status 1"}):
        assert rates(msgspec.structs.replace(same, **other))["differs"]
