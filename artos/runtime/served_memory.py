"""What a server has in the memory of its leased device, as the pool's table says it."""

from __future__ import annotations

from artos.learners.device import Device
from artos.pool.pool import Pool
from artos.pool.seat import Seat

_MB = 1 << 20
_ROOM = 1.25
"""How much it asks for, in terms of the most that it has taken so far: batches differ in size."""


class ServedMemory:
    """Counts like a learner's: what it needs for a batch, and what stays there between two.

    torch is not limited to that, as the largest batch may be yet to come. What nothing is in is
    given back where others lack it; weights stay, for an answer must not wait for them.
    """

    def __init__(self, pool: Pool, seat: Seat, device: Device, total_mb: int) -> None:
        self._pool, self._seat, self._device, self._total_mb = pool, seat, device, total_mb
        self._told = 0, 0

    def tell(self) -> None:
        """Say what is there now; a lock is taken only if that is another amount than before."""
        device = self._device
        context = device.context_bytes
        took = context + int(device.peak_bytes() * _ROOM)
        needs = max(self._told[0], min(self._total_mb, -(-took // _MB)))
        now = needs, -(-(context + device.taken_bytes(0)) // _MB)
        if now != self._told:
            self._told = now
            self._seat.set_memory(*now, remember=False)

    def answered(self) -> None:
        """A batch is over: make room for those who lack it, and say what is left."""
        self.tell()
        if self._pool.lacking_mb(self._seat.what):
            self._device.drop_caches()
            self.tell()
