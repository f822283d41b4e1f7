"""Each replica has a device of its own, and all of one start are a party."""

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
from artos.runtime.replica_devices import device_of, party_of
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


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """Three devices, on one of which a learner is already."""
    with ExitStack() as opened:
        devices = [Resource(f"cpu:{name}") for name in "cab"]
        made = opened.enter_context(Pool.join(devices, folder=tmp_path / "pool"))
        made.enter("other", "cpu:b")
        yield made


def site(rank: int, workload: str = "mine", role: str = "learner", starts: int = 1) -> Any:
    return SimpleNamespace(workload=workload, member=Member(role, rank), starts=starts)


def test_they_have_those_that_the_fewest_are_on(pool: Pool, both: list[Gathering]) -> None:
    names = [each.name for each in pool.resources]
    found = [device_of(pool, names, PLAN, site(n), both[n], 60.0) for n in range(2)]
    assert {*found} == {"cpu:a", "cpu:c"}


def test_one_that_is_not_told_says_who_did_not_choose(pool: Pool, both: list[Gathering]) -> None:
    names = [each.name for each in pool.resources]
    with pytest.raises(ReplicaLost, match="learner did not take part in the choice of devices"):
        device_of(pool, names, PLAN, site(1), both[1], 0.0)


def test_the_replicas_of_one_start_are_a_party() -> None:
    party = party_of(PLAN, site(0))
    assert party == party_of(PLAN, site(1))
    assert party.seats == 2
    others = [site(0, "other"), site(0, role="model"), site(0, starts=2)]
    assert len({party, *(party_of(PLAN, each) for each in others)}) == 4
