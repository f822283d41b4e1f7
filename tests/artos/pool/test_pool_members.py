"""Joining a pool, entering and leaving it: what is refused, what is freed, what is left."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.errors import Refused
from artos.pool import records
from artos.pool.faults import (
    NotInPool,
    PoolFull,
    PoolRefused,
    PoolVersion,
)
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import read_pool
from artos.system.process_locks import ProcessLocks

DEVICE = Resource("cuda:0")


def test_all_that_is_wrong_with_a_seat_is_told_at_once(folder: Path, clock: ManualClock) -> None:
    with Pool.join([Resource("cuda:0", memory_mb=10)], folder=folder, clock=clock) as pool:
        with pytest.raises(PoolRefused) as caught:
            pool.enter("", "cuda:1", weight=0.0, memory_mb=-1)
        words = "\n".join(caught.value.faults)
        assert len(caught.value.faults) == 4
        assert "did you mean cuda:0?" in words
        with pytest.raises(PoolRefused, match="cuda:0 has 10 MB at most"):
            pool.enter("w", "cuda:0", memory_mb=11)
        for weight in (float("nan"), 0.0009, 1001.0):
            with pytest.raises(PoolRefused, match=f"1 is usual, not {weight:g}"):
                pool.enter("w", weight=weight)


def test_all_that_is_wrong_with_resources_is_told_at_once(folder: Path, clock: ManualClock) -> None:
    bad = [Resource("a", share=0), Resource("b", memory_mb=-1), Resource("x" * 99)]
    with Pool.join([DEVICE], folder=folder, clock=clock):
        with pytest.raises(PoolRefused) as caught:
            Pool.join(bad, folder=folder, clock=clock)
        assert len(caught.value.faults) == 3
        with pytest.raises(Refused, match=r"use Resource.*share=1.*, not Resource.*share=2"):
            Pool.join([Resource("cuda:0", share=2)], folder=folder, clock=clock)


def test_a_pool_without_resources_says_so(folder: Path, clock: ManualClock) -> None:
    with (
        Pool.join(folder=folder, clock=clock) as pool,
        pytest.raises(PoolRefused, match="has no 'device': no process has given it any"),
    ):
        pool.enter("w")


def test_the_table_may_be_full(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        monkeypatch.setattr(pool.table.seats, "most", 1)
        seat = pool.enter("w")
        with pytest.raises(PoolFull, match="1024 seats already"):
            pool.enter("w")
        seat.close()
        pool.enter("w").lease().close()


def test_a_table_of_another_version_is_refused_while_it_is_used(
    folder: Path, clock: ManualClock
) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        with (folder / "table").open("r+b") as file:  # a second way in: see ProcessLocks
            file.seek(records.VERSION_AT)
            file.write(struct.pack("<q", 77))
            file.flush()
            with pytest.raises(PoolVersion, match=rf"version 77.*processes {os.getpid()}"):
                Pool.join(folder=folder, clock=clock)
            pool.table.locks.drop(pool.member)
            with Pool.join([DEVICE], folder=folder, clock=clock) as other:
                assert other.table.path.stat().st_ino != os.fstat(file.fileno()).st_ino
        pool.forked()
        pool.table.close()


def test_nothing_can_be_had_of_a_pool_that_was_left(folder: Path, clock: ManualClock) -> None:
    pool = Pool.join([DEVICE], folder=folder, clock=clock)
    seat = pool.enter("w")
    lease = seat.lease()
    pool.close()
    pool.close()
    lease.close()
    seat.close()
    for use in (seat.lease, pool.granted, lambda: pool.enter("w")):
        with pytest.raises(NotInPool, match="join the pool"):
            use()


def test_who_leaves_gives_all_back(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as stays:
        waiting = stays.enter("w")
        with Pool.join(folder=folder, clock=clock) as leaves:
            leaves.enter("v").lease()
            also = leaves.enter("v")
            also.ask_for_lease()
            waiting.ask_for_lease()
        assert waiting.take_lease() is not None
        view = read_pool(folder, clock)
        assert [(each.resource, each.workload) for each in view.holders] == [("cuda:0", "w")]
        assert view.queue == []


def test_what_died_is_freed_by_who_looks_next(folder: Path, clock: ManualClock) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as lives:
        dies = Pool.join(folder=folder, clock=clock)
        dies.enter("v").lease()
        dies.table.locks.drop(dies.member)
        clock.advance(5.0)
        assert lives.enter("w").ask_for_lease() is not None
        assert {each.workload: each.held_seconds for each in lives.usage()}["v"] == 5.0
        with pytest.raises(NotInPool, match="took this one for ended"):
            dies.enter("v")


def test_members_that_cannot_be_watched_are_looked_after(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in another PID namespace have no process id here: their locks tell that they live."""
    dies = Pool.join([DEVICE], folder=folder)
    asked = ProcessLocks.holder
    monkeypatch.setattr(
        ProcessLocks, "holder", lambda locks, n: None if asked(locks, n) is None else 0
    )
    with Pool.join(folder=folder) as lives:
        seat = lives.enter("w")
        dies.enter("v").lease()
        assert seat.ask_for_lease() is None
        lives._watch_members()
        assert lives.patience == 0.5
        dies.table.locks.drop(dies.member)
        assert lives.wait_for(seat, 60.0) is not None
    dies.forked()
    dies.table.close()


def test_a_newcomer_replaces_resources_only_if_nobody_uses_them(
    folder: Path, clock: ManualClock
) -> None:
    killed = Pool.join([DEVICE, Resource("cuda:1")], folder=folder, clock=clock)
    killed.table.locks.drop(killed.member)
    with Pool.join([Resource("cuda:0", share=2)], folder=folder, clock=clock) as pool:
        with pytest.raises(PoolRefused, match="has no 'cuda:1'"):
            pool.enter("w", "cuda:1")
        with Pool.join([Resource("cuda:1")], folder=folder, clock=clock):
            pool.enter("w", "cuda:1").close()
    killed.forked()
    killed.table.close()


def test_numbers_that_no_table_can_hold_are_the_callers_fault(
    folder: Path, clock: ManualClock
) -> None:
    with Pool.join([DEVICE], folder=folder, clock=clock) as pool:
        for more in ({"memory_mb": 1 << 70}, {"priority": -(1 << 70)}):
            with pytest.raises(PoolRefused, match="can be 1,099,511,627,776 at most"):
                pool.enter("w", **more)  # type: ignore[arg-type]
        with pytest.raises(PoolRefused, match="at most"):
            Pool.join([Resource("cuda:1", share=1 << 70)], folder=folder, clock=clock)
        seat = pool.enter("w")
        for seconds in (1e15, math.inf, 1.0):
            seat.lease(seconds).close()
