"""A cluster whose folders need quoting, without homes, and without room for temporary files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import needs_mount, small_disk
from real_cluster import Cluster, assert_each_row_once

pytestmark = [pytest.mark.processes, pytest.mark.long, needs_mount]

RUN = "counting-workload-seed1-1"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can write to, not even root."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        yield disk


@pytest.fixture
def cluster(tmp_path: Path, read_only: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    folder = tmp_path / "all möglich 'e \" $dinge; 中"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(read_only / "nothing"))
    monkeypatch.setenv("TMPDIR", str(read_only))
    there = Cluster(folder)
    try:
        yield there
    finally:
        there.close()


@pytest.mark.usefixtures("drawing")
def test_a_run_on_a_cluster_with_strange_paths(cluster: Cluster, code: Path) -> None:
    code = code.rename(cluster.folder / "mein code")
    cluster.hurry()
    cluster.start_worker("w1")
    submit = cluster.submit("mein code/counting.py:workload", "--total-steps", 640, "--json")
    assert submit.wait() == 0, cluster.story()
    assert json.loads(submit.out)["restarts"] == 0
    assert_each_row_once(cluster.runs / RUN, 640, 2)
    assert (cluster.runs / RUN / "curve.png").exists()
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}
