"""What a tracker is told of a run besides numbers: hyper-parameters, and classes of histograms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from artos.protocol.lag import in_order
from artos.protocol.views import Status
from head.records.episodes import Ended
from head.records.tracker import Classes

_ABOUT = ("workload", "algorithm", "env", "seed", "device", "inline", "settings", "versions",
          "host", "origin")  # fmt: skip
_LONGEST_WAIT = 3600.0
"""Seconds; stands for an end that the last class of waits does not have."""
_BINS, _LARGEST = 20, 1e38
"""Classes of what has none of its own; what is larger is counted as this."""


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Hyper-parameters and provenance out of a ``config.json``, as ``settings.lr``."""
    return dict(_flat({name: config[name] for name in _ABOUT if name in config}))


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None:
            yield f"{before}{name}", value if isinstance(value, bool | int | float) else str(value)


def lags(status: Status) -> Classes:
    """Rows by policy lag, from 0 to the largest class that has any: 0, 1, 2-3, 4-7, ..."""
    counts = in_order(status.lags)
    firsts = [0.0, *(2.0**number for number in range(len(counts)))]
    return dict(zip(pairwise(firsts), counts.values(), strict=True))


def waits_of(waited: Mapping[str, int]) -> dict[str, dict[float, int]]:
    """How many waits there were of each kind, by the upper bound of their class in seconds."""
    counts: dict[str, dict[float, int]] = {}
    for name, count in waited.items():
        kind, _, most = name.rpartition("/")
        counts.setdefault(kind, {})[float(most)] = count
    return counts


def waits(status: Status) -> dict[str, Classes]:
    """Waits by their seconds, for each role and reason."""
    found: dict[str, Classes] = {}
    for kind, each in waits_of(status.waited).items():
        ends = [_LONGEST_WAIT if bound == inf else bound for bound in sorted(each)]
        counts = (each[bound] for bound in sorted(each))
        found[kind] = dict(zip(pairwise([0.0, *ends]), counts, strict=True))
    return found


def counted(status: Status) -> dict[str, Classes]:
    """All that a status counts by classes since the run began, or was resumed."""
    of_lags = {"lags": lags(status)} if status.lags else {}
    return of_lags | {f"waited/{kind}": each for kind, each in waits(status).items()}


def since(before: Classes, now: Classes) -> Classes:
    """What came to be counted meanwhile; if the count began anew, all of it.

    Empty classes at the end are left out.
    """
    more = {each: count - before.get(each, 0) for each, count in now.items()}
    more = dict(now) if min(more.values(), default=0) < 0 else more
    while more and not more[last := next(reversed(more))]:
        del more[last]
    return more


def ended(episodes: Iterable[Ended]) -> dict[str, Classes]:
    """Returns and lengths of episodes; those of a game by whose they were."""
    values: dict[str, list[float]] = {}
    for each in episodes:
        of = f"/{each.agent}" if each.agent else ""
        values.setdefault(f"episodes/return{of}", []).append(each.value)
        values.setdefault(f"episodes/length{of}", []).append(each.length)
    found: dict[str, Classes] = {}
    for name, of_it in values.items():
        finite = np.array([value for value in of_it if np.isfinite(value)], np.float64)
        if finite.size:
            finite = finite.clip(-_LARGEST, _LARGEST)
            low, high = finite.min(), finite.max()
            bounds = np.unique(np.linspace(low, high, _BINS + 1))
            if low == high:
                bounds = np.array([low, max(low + 1.0, np.nextafter(low, inf))])
            counts, _ = np.histogram(finite, bounds)
            found[name] = dict(zip(pairwise(bounds.tolist()), counts.tolist(), strict=True))
    return found
