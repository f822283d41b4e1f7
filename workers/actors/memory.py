"""The memory that actors share with no other process, read as seldom as its price demands."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from artos.clock import Clock

_OLD_SECONDS = 30.0
_APART_SECONDS = 0.1


def private_mb(pid: int) -> float:
    """Memory (MB) that a process shares with no other: what its end, or an image, gives back.

    Its *unique set size*. What it was forked with counts only once it has written to it. The kernel
    walks all its pages for that, 7 ms for an actor of 170 MB. 0 if the process is gone.
    """
    try:
        return float(psutil.Process(pid).memory_full_info().uss) / 1e6
    except psutil.Error:
        return 0.0


@dataclass(frozen=True)
class _Reading:
    pid: int
    at: float
    mb: float


class PrivateMemory:
    """The private memory of each actor, as last read: at its first pause, then every 30 s.

    If several actors are due at once, only one is read and the others keep their last reading, as
    nothing else happens in a process manager during a reading.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readings: dict[int, _Reading] = {}
        self._read_at = -_OLD_SECONDS

    def mb(self, actor: int, pid: int) -> float:
        """Private memory (MB) of an actor, which is this process now."""
        known, now = self._readings.get(actor), self._clock.now()
        may_read = now - self._read_at >= _APART_SECONDS
        if known is None or known.pid != pid or (may_read and now - known.at >= _OLD_SECONDS):
            known = self._readings[actor] = _Reading(pid, now, private_mb(pid))
            self._read_at = now
        return known.mb
