"""The head's disk gets full for real while it unpacks the code of a run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import full, needs_mount, small_disk
from real_cluster import Cluster

pytestmark = [pytest.mark.processes, needs_mount]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A head whose runs are on a disk of 3 MB."""
    with small_disk(tmp_path / "runs", "3m"):
        there = Cluster(tmp_path)
        try:
            yield there
        finally:
            there.close()


def test_an_archive_that_fits_and_its_files_that_do_not(cluster: Cluster, code: Path) -> None:
    """That run fails, with words; with more room the next one finds the archive and begins."""
    (code / "data.bin").write_bytes(bytes(2 << 20))
    failed = cluster.submit("counting.py:workload", cwd=code)
    assert failed.wait() == 2, cluster.story()
    assert "the run cannot begin: [Errno 28] No space left on device" in failed.said
    kept = cluster.runs / ".head" / "code"
    assert [path.suffix for path in kept.iterdir()] == [".tar"]
    assert {path.name for path in cluster.runs.iterdir()} == {".head"}
    subprocess.run(["mount", "-o", "remount,size=16m", cluster.runs], check=True)
    run = cluster.ask("submit", "counting.py:workload", cwd=code)["run"]
    cluster.until(lambda: "artos worker" in cluster.status()[1][run]["waits_for"])
    assert "Traceback" not in cluster.head.said
    cluster.ask("stop", run)
    cluster.until(lambda: cluster.status()[1][run]["outcome"])
    assert cluster.stop() == {"head": 0}


@pytest.mark.long
def test_what_cannot_be_saved_is_refused_and_not_there_later(cluster: Cluster) -> None:
    first = cluster.ask("submit", "ppo", "--run-dir", "first")["run"]
    cluster.until(lambda: "artos worker" in cluster.status()[1][first]["waits_for"])
    with full(cluster.runs):
        for number in range(3):
            said = cluster.refused("submit", "ppo", "--run-dir", f"r{number}")
            assert "not saved" in said
            assert "nothing was changed" in said
        assert {*cluster.status()[1]} == {first}
    last = cluster.ask("submit", "ppo", "--run-dir", "last")["run"]
    cluster.head.kill()
    cluster.start_head()
    assert {*cluster.status()[1]} == {first, last}
    assert "Traceback" not in cluster.head.said
    for run in (first, last):
        cluster.ask("stop", run)
        cluster.until(lambda run=run: cluster.status()[1][run]["outcome"])
    assert cluster.stop() == {"head": 0}
