"""A cluster of a test leaves no process, whatever ends by itself while it is closed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import real_cluster

pytestmark = pytest.mark.processes


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    there = [subprocess.Popen(["sleep", "600"], cwd=tmp_path) for _ in range(2)]
    try:
        yield there
    finally:
        for each in there:
            each.kill()
            each.wait()


def test_one_that_ends_meanwhile_keeps_no_other_alive(
    sleepers: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = sleepers
    seen = [psutil.Process(each.pid) for each in sleepers]
    first.kill()
    first.wait()
    find = real_cluster._of
    looks = iter([seen])
    monkeypatch.setattr(real_cluster, "_of", lambda folder: next(looks, None) or find(folder))
    real_cluster.end_all(tmp_path)
    assert not seen[1].is_running()
