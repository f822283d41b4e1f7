"""Replicas lease a device each, all or none: one after the other, in the order of the names.

As all runs of a machine take devices in this order, two of them never wait for each other: of the
devices that both want, who has the first will get all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xxhash import xxh3_64_intdigest

from artos.buffer.gathering import Gathering
from artos.clock import Deadline
from artos.errors import ReplicaLost
from artos.pool.pool import Pool
from artos.runs.plan import Plan, Site
from artos.runtime.member import Stopped
from artos.specs.members import Member

_LISTEN_SECONDS = 0.5
"""How often one that waits looks whether it was told to stop."""


class LeaseTurns:
    """When a replica may ask for its device, and when all have theirs."""

    def __init__(self, gathering: Gathering, stopped: Callable[[], bool]) -> None:
        self._gathering, self._stopped = gathering, stopped

    def wait_for_mine(self, call: int) -> None:
        """Wait until those before this replica have their devices for a call.

        Raises:
            Stopped: the member was told to stop.
        """
        self._wait_for(range(self._gathering.rank), call)

    def taken(self, call: int) -> None:
        """This one has its device for the call: wait until all have.

        Raises:
            Stopped: the member was told to stop.
        """
        self._gathering.hold(call)
        self._wait_for(range(self._gathering.count), call)

    def _wait_for(self, ranks: Sequence[int], call: int) -> None:
        # However long that takes: they wait for others in the pool, whose leases have an end.
        while not all(self._gathering.holds(rank, call) for rank in ranks):
            if self._stopped():
                raise Stopped
            self._gathering.wait(_LISTEN_SECONDS)


def device_of_all(
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
    return sorted(seat.what for seat in seats)


def _number(name: str) -> int:
    return xxh3_64_intdigest(name.encode()) >> 1
