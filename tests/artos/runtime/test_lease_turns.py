"""Replicas take devices one after the other, and compute once all have theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artos.buffer.gathering import Gathering
from artos.errors import ReplicaLost
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.runtime.lease_turns import LeaseTurns, device_of_all
from artos.runtime.member import Stopped
from artos.specs.members import Member

PLAN: Any = SimpleNamespace(replicas=2, weight=1.0)


@pytest.fixture
def both(tmp_path: Path) -> list[Gathering]:
    """Two replicas, as each of them sees the other."""
    Gathering.create(tmp_path / "gathering", 2)
    found = [Gathering.attach(tmp_path / "gathering", 2) for _ in range(2)]
    for rank, each in enumerate(found):
        each.come(rank, 1)
    return found


def told_to_stop() -> bool:
    return True


def never() -> bool:
    raise AssertionError("it need not wait")


def test_the_second_waits_for_the_first(both: list[Gathering]) -> None:
    first, second = both
    LeaseTurns(first, never).wait_for_mine(7)
    with pytest.raises(Stopped):
        LeaseTurns(second, told_to_stop).wait_for_mine(7)
    with pytest.raises(Stopped):
        LeaseTurns(first, told_to_stop).taken(7)
    LeaseTurns(second, never).wait_for_mine(7)


def test_none_computes_before_all_have_theirs(both: list[Gathering]) -> None:
    first, second = both
    with pytest.raises(Stopped):
        LeaseTurns(first, told_to_stop).taken(7)
    LeaseTurns(second, never).taken(7)
    LeaseTurns(first, never).taken(7)
    with pytest.raises(Stopped):
        LeaseTurns(second, told_to_stop).wait_for_mine(8)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """Three devices, on one of which a learner is already."""
    with ExitStack() as opened:
        devices = [Resource(f"cpu:{name}") for name in "cab"]
        made = opened.enter_context(Pool.join(devices, folder=tmp_path / "pool"))
        made.enter("other", "cpu:b")
        yield made


def site(rank: int) -> Any:
    return SimpleNamespace(workload="mine", member=Member("learner", rank))


def test_they_have_those_that_the_fewest_are_on_in_the_order_of_names(
    pool: Pool, both: list[Gathering]
) -> None:
    names = [each.name for each in pool.resources]
    found = [device_of_all(pool, names, PLAN, site(n), both[n], 60.0) for n in range(2)]
    assert found == ["cpu:a", "cpu:c"]


def test_one_that_is_not_told_says_who_did_not_choose(pool: Pool, both: list[Gathering]) -> None:
    names = [each.name for each in pool.resources]
    with pytest.raises(ReplicaLost, match="learner did not take part in the choice of devices"):
        device_of_all(pool, names, PLAN, site(1), both[1], 0.0)
