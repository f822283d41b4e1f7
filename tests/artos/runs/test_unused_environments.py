"""Environments of packages that nothing enters any more."""

from __future__ import annotations

import os
import time
from pathlib import Path

from artos.runs.packages import remove_unused
from artos.system.locks import FileLock

DAY = 86_400.0


def test_of_many_those_unused_for_long_go_unless_one_is_being_made(tmp_path: Path) -> None:
    now = time.time()
    for number in range(20):
        environment = tmp_path / f"e{number:02}"
        environment.mkdir()
        (environment / "complete").touch()
        used = now - number * 2 * DAY  # from the 16th on for more than 30 days
        os.utime(environment / "complete", (used, used))
    lock = FileLock.take(tmp_path / "e19.lock")
    assert lock is not None
    with lock:
        remove_unused(tmp_path)
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {f"e{number:02}" for number in (*range(16), 19)}
