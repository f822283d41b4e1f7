"""Which device each replica of a learner leases, and the party that they are in the pool."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from artos.buffer.gathering import Gathering
from artos.clock import Deadline
from artos.errors import ReplicaLost
from artos.pool.pool import Pool
from artos.pool.resources import Party
from artos.runs.plan import Plan, Site
from artos.specs.members import Member


def party_of(plan: Plan, site: Site) -> Party:
    """The party of all replicas of a learner that were started together."""
    return Party(_number(f"{site.workload}/{site.member.role}/{site.starts}"), plan.replicas)


def device_of(
    pool: Pool, names: list[str], plan: Plan, site: Site, gathering: Gathering, seconds: float
) -> str:
    """The device of this replica: the first one chooses those that the fewest learners are on.

    Raises:
        ReplicaLost: the first one did not within ``seconds``.
    """
    if site.member.rank == 0:
        chosen = _least_sought(pool, names, plan, site)
        for rank, name in enumerate(chosen):
            gathering.give(rank, _number(name))
        return chosen[0]
    deadline = Deadline(seconds)
    while (number := gathering.given) is None:
        if deadline.passed:
            first = [str(Member(site.member.role))]
            raise ReplicaLost(first, "the choice of devices", f"not within {seconds:g} s")
        gathering.wait(deadline.left)
    return next(name for name in names if _number(name) == number)


def _least_sought(pool: Pool, names: list[str], plan: Plan, site: Site) -> list[str]:
    left, seats = [*names], []
    try:
        for _ in range(plan.replicas):
            seats.append(pool.enter(site.workload, left, weight=plan.weight))
            left.remove(seats[-1].what)
    finally:
        for seat in seats:
            seat.close()
    return [seat.what for seat in seats]


def _number(name: str) -> int:
    return xxh3_64_intdigest(name.encode()) >> 1
