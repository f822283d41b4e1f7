"""A learner that has its device for one update at a time, by leases of this machine's pool."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from artos.levels import level
from artos.plan import Plan, Site
from artos.pool.devices import DEVICE
from artos.pool.faults import LeaseRevoked, PoolRefused
from artos.pool.pool import Pool
from artos.pool.seat import Lease, Seat
from artos.protocol.invocations import Done, Invoke, Waits
from artos.runtime.member import LearnerRole, Stopped

if TYPE_CHECKING:
    from artos.learners.device import Device

WAITS_FOR = "a device"
_MB = 1 << 20
_LISTEN_SECONDS = 0.5
"""How often a learner that waits looks whether it was told to stop."""
_TIMES_LONGEST, _SHORTEST, _NEWEST = 5.0, 1.0, 5
"""A lease is so many times as long as the longest of the last updates, and never shorter (s)."""
_ROOM = 1.25
"""How much memory a learner may take, in terms of what its first update took."""


class Enter(Protocol):
    """Enters the pool for a resource, with the learner's name, weight and priority."""

    def __call__(self, what: str | Collection[str], *, memory_mb: int = 0) -> Seat:
        """See ``Pool.enter``."""


class LeasedRole:
    """Carries out each invocation on a device that it leases, and gives back after publication.

    A lease lasts a multiple of what such invocations took lately, at most ``deadline`` seconds. If
    it is taken away, the update counts and is published even so; ``Done.lost_lease`` tells of it.

    ``report`` is told when an invocation has to wait, and when it is begun after that; ``stopped``
    is asked meanwhile.
    """

    def __init__(
        self,
        role: LearnerRole,
        pool: Pool,
        seat: Seat,
        enter: Enter,
        deadline: float,
        report: Callable[[Waits], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._role, self._pool, self._seat, self._enter = role, pool, seat, enter
        self._deadline, self._report, self._stopped = deadline, report, stopped
        self._memory_mb = sum(each.memory_mb for each in pool.resources if each.name == seat.what)
        self._measured = not self._memory_mb
        self._took: dict[str, deque[float]] = {}
        self._pauses: deque[float] = deque(maxlen=_NEWEST)
        self._ended = time.perf_counter()

    @property
    def device(self) -> str:
        """The resource of the pool that it leases."""
        return self._seat.what

    def run(self, call: Invoke) -> Done:
        """See ``LearnerRole.run``.

        Raises:
            Stopped: the member was told to stop before the device was free.
        """
        asked = time.perf_counter()
        self._pauses.append(asked - self._ended)
        times: dict[str, float] = {}
        lease = self._seat.ask(self._length(call)) or self._wait(times)
        began, kept = time.perf_counter(), True
        try:
            done = self._role.run(call)
            self._leave(lease, times)
        finally:
            kept = _given_back(lease)
            self._ended = time.perf_counter()
        self._learned(call, self._ended - began)
        return _told(done, times, "" if kept else lease.resource)

    def _length(self, call: Invoke) -> float:
        if took := self._took.get(call.method):
            return min(self._deadline, max(_SHORTEST, _TIMES_LONGEST * max(took)))
        return self._deadline

    def _wait(self, times: dict[str, float]) -> Lease:
        began = time.perf_counter()
        self._report(Waits(WAITS_FOR))
        while (lease := self._pool.wait_for(self._seat, _LISTEN_SECONDS)) is None:
            if self._stopped():
                if lease := self._seat.withdraw():
                    lease.close()
                raise Stopped
        self._report(Waits(""))
        times["wait_for_device"] = time.perf_counter() - began
        return lease

    def _leave(self, lease: Lease, times: dict[str, float]) -> None:
        """Clear the device as far as those need it who come next."""
        if not self._memory_mb or (residency := self._role.residency) is None:
            return
        began, lacking = time.perf_counter(), self._pool.lacking_mb(self.device) * _MB
        if lacking:
            found = level(residency.costs, lacking, waits=lease.wanted, pause=min(self._pauses))
            residency.leave(found)
            times["clear_device"] = time.perf_counter() - began

    def _learned(self, call: Invoke, seconds: float) -> None:
        self._took.setdefault(call.method, deque(maxlen=_NEWEST)).append(seconds)
        if not self._measured and self._role.residency is not None:
            self._measured = True
            self._limit(self._role.residency.device)

    def _limit(self, device: Device) -> None:
        """From now on the seat says what memory it needs, and the process cannot take more."""
        limit = int(device.peak_bytes() * _ROOM)
        needs_mb = min(self._memory_mb, -(-(limit + device.context_bytes) // _MB))
        what = self.device
        self._seat.close()
        self._seat = self._enter(what, memory_mb=needs_mb)
        device.limit(limit)

    # -- as the learner's role -----------------------------------------------------------------

    def step(self) -> int:
        """See ``LearnerRole.step``."""
        return self._role.step()

    def snapshot(self) -> dict[str, Any]:
        """See ``LearnerRole.snapshot``."""
        return self._role.snapshot()

    def go_on(self, found: dict[str, Any]) -> None:
        """See ``LearnerRole.go_on``."""
        self._role.go_on(found)

    def close(self) -> None:
        """Leave the pool; twice is fine."""
        self._role.close()
        self._pool.close()


def leased(
    make_role: Callable[[str], LearnerRole],
    plan: Plan,
    site: Site,
    report: Callable[[Waits], None],
    stopped: Callable[[], bool],
) -> LeasedRole:
    """Join the pool of this machine, choose a device, and make the role for it.

    It is the one that the fewest learners are on. A pool without devices is given those of this
    machine.

    Raises:
        PoolRefused: torch can use none of the devices of the pool.
    """
    from artos.learners.device import name_of, own_resources  # noqa: PLC0415

    pool = Pool.join(otherwise=own_resources(), name="learner")
    try:
        enter = partial(pool.enter, site.workload, weight=plan.weight, priority=plan.priority)
        seat = enter(_names(pool))
        role = make_role(name_of(seat.what))
        return LeasedRole(role, pool, seat, enter, plan.deadline, report, stopped)
    except BaseException:
        pool.close()
        raise


def _names(pool: Pool) -> list[str]:
    """The devices of the pool that torch can use here."""
    from artos.learners.device import unusable, usable  # noqa: PLC0415

    there = [each.name for each in pool.resources if each.kind == DEVICE]
    if not (names := usable(there)):
        raise PoolRefused([unusable(there)])
    return names


def _given_back(lease: Lease) -> bool:
    """Give it back; False if it had been taken away."""
    try:
        lease.close()
    except LeaseRevoked:
        return False
    return True


def _told(done: Done, times: dict[str, float], lost_lease: str) -> Done:
    if not (times or lost_lease):
        return done
    return msgspec.structs.replace(done, times=done.times | times, lost_lease=lost_lease)
