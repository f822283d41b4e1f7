"""What CRIU may leave in the working directory of a process it was killed with."""

from __future__ import annotations

import subprocess
from pathlib import Path

from worker_hosts import needs_root

from workers.proc_folder import remove_left


def test_one_that_was_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "proc.crtools"
    left.mkdir()
    assert not remove_left(tmp_path)  # a dump may just be using it
    assert left.exists()
    assert remove_left(tmp_path, moment=0.0)
    assert not left.exists()
    assert not remove_left(tmp_path, moment=0.0)


@needs_root
def test_one_that_is_still_mounted_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "proc.crtools"
    left.mkdir()
    subprocess.run(["mount", "-t", "proc", "proc", str(left)], check=True)
    assert (left / "self").exists()
    assert remove_left(tmp_path, moment=0.0)
    assert not left.exists()
