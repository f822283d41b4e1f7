"""What CRIU may leave in the working directory of a process it was killed with."""

from __future__ import annotations

import subprocess
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from named import acting
from worker_hosts import needs_root

from artos.runs.plan import Site
from artos.specs.members import Members
from workers.checkpoint.checkpointer import Checkpointer, Progress
from workers.checkpoint.images import ImageStore
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


def test_a_working_directory_that_was_removed_is_no_fault(tmp_path: Path) -> None:
    gone, criu = tmp_path / "gone", Any
    gone.mkdir()
    site = Site(str(tmp_path), *acting(0), Members.of_run(1))
    with chdir(gone):
        gone.rmdir()
        store = ImageStore(tmp_path / "images", 1)
        checkpointer = Checkpointer(
            site, criu, store, lambda *_, **__: (), lambda _: Progress(0, 0), gives_back=True
        )
        checkpointer.close()
