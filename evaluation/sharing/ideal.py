"""What updates of two workloads would take that share everything without a gap."""

from __future__ import annotations

import resource


def ideal(update: float, learn: float, cpu: float, cores: int) -> float:
    """Seconds of an update of each of two workloads that interleave perfectly.

    Alone an update takes ``update`` seconds, of which the learner has its device for ``learn``, and
    ``cpu`` CPU seconds of all processes of its run. Two cannot be faster than the device, the slots
    or the ``cores`` serve both: while one learns the other samples, as far as cores are left.
    """
    return max(update, 2 * learn, 2 * (update - learn), 2 * cpu / cores)


def cpu_seconds() -> float:
    """CPU seconds of this process and of all its descendants that are over."""
    spent = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)
