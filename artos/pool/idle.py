"""How long a device stood idle while a learner had it, by what its driver sampled. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_LONGEST = 1.0
"""The most seconds that one sample tells about: before that, others must have been lost."""


class IdleTime:
    """Compares the times of a learner's updates with samples of its device.

    All times are seconds on one clock. A sample ``(at, share)`` says for which ``share`` of the
    time since the sample before it the device computed, whoever asked it to. Time that no sample
    tells about does not count as idle.
    """

    def __init__(self) -> None:
        self.newest = 0.0
        self._updates: deque[tuple[float, float]] = deque()

    def updated(self, began: float, ended: float) -> None:
        """An update took place. They come in order and do not overlap."""
        self._updates.append((began, ended))

    def sampled(self, samples: Iterable[tuple[float, float]]) -> float:
        """Seconds that the device was idle during updates, by samples not seen before."""
        idle = 0.0
        for at, share in sorted(samples):
            if at <= self.newest:
                continue
            since = max(self.newest, at - _LONGEST)
            updating = sum(
                max(0.0, min(ended, at) - max(began, since)) for began, ended in self._updates
            )
            idle += max(0.0, 1.0 - share) * updating
            self.newest = at
        while self._updates and self._updates[0][1] <= self.newest:
            self._updates.popleft()
        return idle
