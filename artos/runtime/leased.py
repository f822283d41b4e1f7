"""A learner that has its device for one update at a time, by leases of this machine's pool."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from artos.buffer.gathering import Gathering
from artos.errors import CannotReturn, ReplicaLost
from artos.pool.faults import LeaseRevoked, NoMemoryInTime
from artos.pool.pool import Pool
from artos.pool.seat import NANO, Lease, Seat
from artos.protocol.invocations import Done, Invoke, Waits
from artos.runs.plan import Plan, Site
from artos.runtime.leased_memory import LeasedMemory, MemoryWait
from artos.runtime.member import LearnerRole, Stopped, no_duties
from artos.runtime.replica_devices import device_of, party_of

_DEVICE, _OTHERS = "a device", "the other replicas"
_LISTEN_SECONDS = 0.5
"""How often a learner that waits looks whether it was told to stop."""
_GRACE_SECONDS = 0.5
"""For how long a replica says nothing of its wait: the others ask at about the same time."""
_PATIENCE = 0.9
"""The part of the deadline that the others have to ask for theirs."""
_TIMES_LONGEST, _SHORTEST, _NEWEST = 5.0, 1.0, 5
"""A lease is so many times as long as the longest of the last updates, and never shorter (s)."""


class LeasedRole:
    """Carries out each invocation on a device that it leases, and gives back after publication.

    A lease lasts a multiple of what such invocations took lately, at most ``deadline`` seconds. If
    it is taken away, the update counts and is published even so; ``Done.lost_lease`` tells of it.

    ``report`` is told when an invocation has to wait, and when it is begun after that; ``stopped``
    is asked meanwhile. Replicas have seats of one party: all get their devices at the same time.
    """

    def __init__(
        self,
        role: LearnerRole,
        pool: Pool,
        seat: Seat,
        deadline: float,
        report: Callable[[Waits], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._role, self._pool, self._seat = role, pool, seat
        self._deadline, self._report, self._stopped = deadline, report, stopped
        memory_mb = sum(each.memory_mb for each in pool.resources if each.name == seat.what)
        self._memory: LeasedMemory | None = None
        if memory_mb and role.residency is not None:
            self._memory = LeasedMemory(pool, seat, role.residency, memory_mb)
        self._took: dict[str, deque[float]] = {}
        self._pauses: deque[float] = deque(maxlen=_NEWEST)
        self._ended = time.perf_counter()

    @property
    def device(self) -> str:
        """The resource of the pool that it leases."""
        return self._seat.what

    def run(self, call: Invoke) -> Done:
        """Carry out one invocation while it has a lease of the device.

        Raises:
            Stopped: the member was told to stop before the device was free.
            ReplicaLost: the other replicas did not ask for theirs.
            NoMemoryInTime: others kept its memory for longer than the deadline.
            DeviceFull: there was no room; in the next process it gets a lease of more memory.
            DeviceTooSmall: there was no room, and there is no more to get.
        """
        asked = time.perf_counter()
        self._pauses.append(asked - self._ended)
        times: dict[str, float] = {}
        length, took = self._deadline, self._took.setdefault(call.method, deque(maxlen=_NEWEST))
        if took:
            length = min(length, max(_SHORTEST, _TIMES_LONGEST * max(took)))
        lease = self._seat.ask_for_lease(length) or self._wait(times)
        began, kept = time.perf_counter(), True
        try:
            done = self._updated(call, lease, times)
        finally:
            try:
                lease.close()
            except LeaseRevoked:  # it had been taken away
                kept = False
            self._ended = time.perf_counter()
        took.append(self._ended - began)
        if kept and not times:
            return done
        lost_lease = "" if kept else lease.resource
        return msgspec.structs.replace(done, times=done.times | times, lost_lease=lost_lease)

    def idle(self) -> float:
        """While no invocation comes: make room if others wait for it; seconds until the next look.

        Only a learner that has left something on a device whose memory is counted need look.
        """
        if self._memory is None or not self._memory.left:
            return no_duties()
        self._memory.make_room()
        return _LISTEN_SECONDS

    def _updated(self, call: Invoke, lease: Lease, times: dict[str, float]) -> Done:
        """Carry it out, and clear the device as far as those need it who come next."""
        if (memory := self._memory) is None:
            return self._role.run(call)
        try:
            done = self._role.run(call)
        except (memory.out_of_memory, CannotReturn) as error:
            raise memory.ran_short(error) from error
        memory.updated()
        began = time.perf_counter()
        if memory.leave(lease, min(self._pauses)):
            times["clear_device"] = time.perf_counter() - began
        return done

    def _wait(self, times: dict[str, float]) -> Lease:
        began, lease = time.perf_counter(), None
        if not self._seat.alone:  # the other replicas ask at about the same time
            lease = self._pool.wait_for(self._seat, _GRACE_SECONDS)
        if lease is None:
            try:
                lease = self._waited()
            except (Stopped, NoMemoryInTime, ReplicaLost):
                if late := self._seat.withdraw():
                    late.close()
                raise
            self._report(Waits(""))
        times["wait_for_device"] = time.perf_counter() - began
        return lease

    def _waited(self) -> Lease:
        """Wait, saying for what: the run leaves it all the time it takes."""
        memory, told, lacks = MemoryWait(self._pool, self._seat, self._deadline), "", ""
        complete, longest = self._pool.now(), _PATIENCE * self._deadline
        while True:
            missing, now = self._seat.missing, self._pool.now()
            if not missing:
                complete = now
            elif now - complete >= longest * NANO:
                why = f"{'; '.join(missing)}, not within {longest:g} s"
                raise ReplicaLost(["another replica"], "the lease of their devices", why)
            if (what := lacks or (_OTHERS if missing else _DEVICE)) != told:
                self._report(Waits(what))
                told = what
            if (lease := self._pool.wait_for(self._seat, _LISTEN_SECONDS)) is not None:
                return lease
            if self._stopped():
                raise Stopped
            lacks = memory.lacking()
            self.idle()  # or two might wait for memory that the other has left there

    # -- as the learner's role -----------------------------------------------------------------

    def step(self) -> int:
        """The version published last."""
        return self._role.step()

    def snapshot(self) -> dict[str, Any]:
        """What the learner holds between two invocations; to be pickled at once."""
        return self._role.snapshot()

    def go_on(self, found: dict[str, Any]) -> None:
        """Learn on from a snapshot, as the process would that it is of."""
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
    gathering: Gathering | None = None,
) -> LeasedRole:
    """Join the pool of this machine, choose a device, and make the role for it.

    It is the one that the fewest learners are on. A pool without devices is given those of this
    machine. Replicas, which are in a ``gathering``, have one each.

    Raises:
        PoolRefused: torch can use none of the devices of the pool.
        ReplicaLost: the first replica did not say which device is this one's.
    """
    from artos.runtime.leasable import name_of, names_in, own_resources  # noqa: PLC0415

    pool = Pool.join(otherwise=own_resources(), name=str(site.member))
    try:
        what, party = names_in(pool), None
        if gathering is not None:
            what = [device_of(pool, what, plan, site, gathering, plan.deadline)]
            party = party_of(plan, site)
        seat = pool.enter(
            site.workload, what, weight=plan.weight, priority=plan.priority, party=party
        )
        (device,) = (each for each in pool.resources if each.name == seat.what)
        role = make_role(name_of(device))
        return LeasedRole(role, pool, seat, plan.deadline, report, stopped)
    except BaseException:
        pool.close()
        raise
