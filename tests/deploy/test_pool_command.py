"""``artos pool``: who holds what and who waits, for people and as JSON."""

from __future__ import annotations

import json
import os

import pytest

from artos.clock import SystemClock
from artos.pool.folder import pool_folder
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import read_pool
from deploy.cli.__main__ import main
from deploy.cli.pool import text


def test_a_machine_without_a_pool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pool"]) == 0
    assert capsys.readouterr().out == "nothing is leased on this machine\n"
    assert not pool_folder().exists()


def test_resources_holders_queue_and_accounts(capsys: pytest.CaptureFixture[str]) -> None:
    resources = [Resource("cuda:0", memory_mb=900), Resource("slot:0", "slot")]
    with Pool.join(resources, name="a run") as pool:
        holder, waiting = pool.enter("first", memory_mb=500), pool.enter("second", weight=2.0)
        with holder.lease(60.0):
            waiting.ask_for_lease()
            assert main(["pool", "--json"]) == 0
            shown = json.loads(capsys.readouterr().out)
            assert [each["holders"] for each in shown["resources"]] == [1, 0]
            (held,) = shown["holders"]
            assert (held["resource"], held["pid"], held["process"]) == (
                "cuda:0",
                os.getpid(),
                "a run",
            )
            (queued,) = shown["queue"]
            assert (queued["workload"], queued["weight"], queued["why"]) == ("second", 2.0, "turn")
            assert [each["waits"] for each in shown["workloads"]] == [0, 1]
            assert main(["pool"]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert lines[1].split()[:4] == ["cuda:0", "1/1", "500/900", "MB"]
            assert lines[2].split() == ["slot:0", "0/1", "-", "-"]
            assert lines[5].split()[:2] == ["device", "second"]


def test_what_is_only_kept_is_not_held() -> None:
    with Pool.join([Resource("cuda:0")]) as pool:
        pool.enter("w").lease().close()
        assert read_pool().holders == []


def test_a_late_holder_is_called_late() -> None:
    class Later(SystemClock):
        def now(self) -> float:
            return super().now() + 100.0

    with Pool.join([Resource("cuda:0")]) as pool, pool.enter("w").lease(10.0):
        assert ", late)" in text(read_pool(clock=Later()))


def test_what_a_dead_process_left_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    killed = Pool.join([Resource("cuda:0")])
    killed.enter("w").lease()
    killed.table.locks.drop(killed.member)
    assert main(["clean"]) == 0
    assert f"removed {pool_folder()}" in capsys.readouterr().out
    assert not pool_folder().exists()
    assert read_pool().holders == []
    killed.forked()
    killed.table.close()
