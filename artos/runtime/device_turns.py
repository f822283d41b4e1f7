"""A server's device: it has it for one batch at a time, by leases of this machine's pool."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from artos.learners.device import device_of
from artos.pool.faults import LeaseRevoked
from artos.pool.pool import Pool
from artos.runs.plan import Plan, Site
from artos.runtime.leasable import name_of, names_in, own_resources
from artos.runtime.served_memory import ServedMemory
from artos.system.faults import Seldom

_log = logging.getLogger(__name__)


class DeviceTurns:
    """A seat in the pool of this machine, for the device that the fewest are on.

    While nobody else wants the device, a turn costs two words of shared memory. Where its memory is
    counted, what the server has there is, too.

    Raises:
        PoolRefused: torch can use none of the devices of the pool.
    """

    def __init__(self, plan: Plan, site: Site) -> None:
        self._deadline, self._seldom = plan.deadline, Seldom(_log)
        self._pool = Pool.join(otherwise=own_resources(), name=str(site.member))
        try:
            names = names_in(self._pool)
            self._seat = self._pool.enter(
                site.workload, names, weight=plan.weight, priority=plan.priority
            )
            (found,) = (each for each in self._pool.resources if each.name == self._seat.what)
            self.device = name_of(found)
            """What torch calls it."""
            self.memory: ServedMemory | None = None
            """None if nobody counts the memory of this device."""
            if found.memory_mb:
                there = device_of(self.device)
                self.memory = ServedMemory(self._pool, self._seat, there, found.memory_mb)
        except BaseException:
            self._pool.close()
            raise

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The device is this process's inside.

        Raises:
            LeaseTimeout: others did not leave it within the run's deadline.
        """
        lease = self._seat.lease(self._deadline, wait=self._deadline)
        try:
            yield
        finally:
            if self.memory is not None:
                self.memory.answered()
            try:
                lease.close()
            except LeaseRevoked as late:
                self._seldom.warning("%s; its answers count even so", late)

    def close(self) -> None:
        """Leave the pool; twice is fine."""
        self._pool.close()
