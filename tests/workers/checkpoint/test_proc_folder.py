"""What CRIU may leave in the working directory of a process it was killed with."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from worker_hosts import needs_root

from workers.checkpoint.proc_folder import remove_left


def test_one_that_was_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "proc.crtools"
    left.mkdir()
    assert not remove_left(tmp_path)  # a dump may just be using it
    assert left.exists()
    assert remove_left(tmp_path, moment=0.0)
    assert not left.exists()
    assert not remove_left(tmp_path, moment=0.0)


def test_one_that_seems_to_be_of_the_future_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proc.crtools").mkdir()
    monkeypatch.setattr(time, "time", lambda: 0.0)  # the clock was set back
    assert remove_left(tmp_path)


@needs_root
def test_one_that_is_still_mounted_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "proc.crtools"
    left.mkdir()
    subprocess.run(["mount", "-t", "proc", "proc", str(left)], check=True)
    assert (left / "self").exists()
    assert remove_left(tmp_path, moment=0.0)
    assert not left.exists()
