"""``artos get`` from a real head: killed and repeated, of a damaged copy, and of a live run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from helpers import PATIENCE
from real_cluster import Cluster, Command

from head.daemon.run_files import listed

pytestmark = [pytest.mark.processes, pytest.mark.long]
RUN, MIB = "r1", 1 << 20


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in listed(folder)}


def stop_between_pieces(get: Command, part: Path, changed: int) -> None:
    """Freeze the command when it has some of a file, and is not just writing more of it."""
    process, end = psutil.Process(get.process.pid), time.monotonic() + PATIENCE
    while True:
        time.sleep(0.001)
        get.signal(signal.SIGSTOP)
        while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            assert time.monotonic() < end, get.said
        if part.exists() and part.stat().st_mtime_ns == changed:
            return
        get.signal(signal.SIGCONT)
        assert get.process.poll() is None, get.said
        assert time.monotonic() < end, get.said


def test_a_copy_that_is_killed_goes_on_and_one_that_is_damaged_is_mended(
    cluster: Cluster, code: Path, tmp_path: Path
) -> None:
    there, mine = cluster.runs / RUN, tmp_path / "mine"
    cluster.start_worker("w1")
    cluster.alive("w1")
    cluster.hurry()
    asked = ("counting.py:workload", "--total-steps", 640, "--run-dir", RUN)
    assert cluster.submit(*asked, cwd=code).wait() == 0, cluster.story()
    big = there / "big.bin"
    big.write_bytes(b"".join(bytes([number]) * MIB for number in range(100)))
    get = cluster.start("get", "get", RUN, mine, *cluster.towards_head)
    part = mine / ".big.bin.part"
    stop_between_pieces(get, part, big.stat().st_mtime_ns)
    get.kill()
    came = part.stat().st_size
    assert 0 < came < 100 * MIB
    again = cluster.ask("get", RUN, mine)
    assert content(mine) == content(there)
    assert again["bytes"] <= sum(map(len, content(there).values())) - came
    assert cluster.ask("get", RUN, mine)["files"] == 0

    damaged = mine / "big.bin"
    about = damaged.stat()
    with damaged.open("r+b") as file:
        file.seek(50 * MIB)
        file.write(b"x")
    os.utime(damaged, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert cluster.ask("get", RUN, mine)["files"] == 1
    assert content(mine) == content(there)


def test_who_follows_a_run_has_all_of_it_when_it_is_over(
    cluster: Cluster, code: Path, tmp_path: Path
) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    submit = cluster.submit("counting.py:workload", "--run-dir", RUN, cwd=code)
    cluster.until_under_way(RUN)
    mine = tmp_path / "mine"
    get = cluster.start("get", "get", RUN, mine, "--follow", *cluster.towards_head)
    cluster.until(lambda: "came into" in get.said)
    assert get.process.poll() is None, "it goes on"
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    assert get.wait() == 0, get.said
    assert content(mine) == content(cluster.runs / RUN)
    assert get.said.count("came into") > 1
    assert not [path for path in mine.rglob(".*") if path.suffix == ".part"]
