"""What `artos dashboard` says before it serves."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from deploy.cli.dashboard import _source
from deploy.client.copied import remember


def test_the_files_of_a_sweep_are_no_runs(tmp_path: Path) -> None:
    """The shell has them among SWEEP/*."""
    for name in ("lr=0.1", "lr=0.2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    for name in ("sweep.csv", "sweep.json", "sweep.png"):
        (tmp_path / name).touch()
    named = sorted(map(str, tmp_path.iterdir()))
    source = _source(argparse.Namespace(run=named, head=None, runs=None))
    assert {run.name for run in source.cluster().runs} == {"lr=0.1", "lr=0.2"}


def test_a_copy_of_a_live_run_is_said_to_stand_still(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, state in (("live", "running"), ("over", "done")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        remember(tmp_path / name, state)
    _source(argparse.Namespace(run=["live", "over"], head=None, runs=tmp_path)).close()
    said = capsys.readouterr().err
    assert "live goes on; it is shown as it was copied: use --head" in said
    assert "over" not in said
