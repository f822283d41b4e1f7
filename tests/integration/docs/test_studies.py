"""The example of a study runs, with the library that it is written for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT
from more_packages import python_with

EXAMPLE = ROOT / "docs" / "examples" / "optuna_study.py"


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "how-to" / "python.md").read_text()
    assert f"```python\n{EXAMPLE.read_text()}```" in page


@pytest.mark.processes
@pytest.mark.long
def test_a_study_proposes_and_prunes(tmp_path: Path) -> None:
    python = python_with(tmp_path / "python", "optuna>=4")
    study = tmp_path / "study.py"
    shorter = EXAMPLE.read_text().replace("40_000", "4_096").replace("n_trials=8", "n_trials=2")
    study.write_text(shorter)
    done = subprocess.run(
        [python, study], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "lr" in done.stdout.splitlines()[-1]
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"0", "1"}
