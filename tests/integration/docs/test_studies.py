"""The examples of studies run, with the libraries that they are written for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

from evaluation.lab.packages import python_with

EXAMPLES = ROOT / "docs" / "examples"
OPTUNA, TUNE = EXAMPLES / "optuna_study.py", EXAMPLES / "ray_tune_search.py"


@pytest.mark.parametrize("example", [OPTUNA, TUNE], ids=lambda example: example.stem)
def test_the_page_shows_the_example(example: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "python.md").read_text()
    assert f"```python\n{example.read_text()}```" in page


def said(example: Path, folder: Path, package: str, trials: str) -> str:
    """What it prints when it is shorter and has two trials."""
    python = python_with(folder / "python", package)
    study = folder / "study.py"
    study.write_text(
        example.read_text().replace("40_000", "4_096").replace(trials, f"{trials[:-1]}2")
    )
    done = subprocess.run(
        [python, study], cwd=folder, text=True, capture_output=True, timeout=PATIENCE, check=False,
        # Not the cluster of another test, which Ray would find in its folder of temporary files.
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "RAY_ADDRESS": "local"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.processes
@pytest.mark.long
def test_a_study_proposes_and_prunes(tmp_path: Path) -> None:
    assert "lr" in said(OPTUNA, tmp_path, "optuna>=4", "n_trials=8").splitlines()[-1]
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"0", "1"}


@pytest.mark.processes
@pytest.mark.long
def test_tune_searches(tmp_path: Path) -> None:
    assert "gamma" in said(TUNE, tmp_path, "ray[tune]==2.60.0", "num_samples=8").splitlines()[-1]
    found = [*(tmp_path / "ray_results").rglob("result.json")]
    assert len(found) == 2
    assert all("mean_return_100" in path.read_text() for path in found)
