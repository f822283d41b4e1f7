"""Which CPUs of a node each of its runs uses: as many as its share, the same as before. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle


def allot(
    cpus: Sequence[int], shares: Mapping[str, int], before: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """CPUs for each run; one that had some keeps as many of them as its share allows.

    No two runs get the same CPU unless the shares add up to more than there are.
    """
    shares = {run: min(count, len(cpus)) for run, count in shares.items()}
    kept = {run: [c for c in before.get(run, ()) if c in cpus][:n] for run, n in shares.items()}
    used = {cpu for mine in kept.values() for cpu in mine}
    free = [cpu for cpu in cpus if cpu not in used]
    again = cycle(cpus)
    for run, mine in kept.items():
        while len(mine) < shares[run]:
            mine.append(free.pop(0) if free else next(cpu for cpu in again if cpu not in mine))
    return {run: tuple(sorted(mine)) for run, mine in kept.items()}
