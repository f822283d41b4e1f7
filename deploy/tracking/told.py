"""What a tracker is told of a run besides numbers: hyper-parameters, and classes of histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import Any

from artos.protocol.views import Status
from deploy.metrics.families import waits_of

_ABOUT = ("workload", "algorithm", "env", "seed", "device", "inline", "settings", "versions",
          "host", "origin")  # fmt: skip
_LONGEST_WAIT = 3600.0
"""Seconds; stands for an end that the last class of waits does not have."""
Classes = dict[tuple[float, float], int]
"""How many there are from a first value to below the first one of the next class."""


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
    largest = max(int(name.rpartition("-")[2]) for name in status.lags)
    firsts = [0.0, *(2.0**digits for digits in range(largest.bit_length() + 1))]
    named = {float(name.partition("-")[0]): rows for name, rows in status.lags.items()}
    return {(first, end): named.get(first, 0) for first, end in pairwise(firsts)}


def waits(status: Status) -> dict[str, Classes]:
    """Waits by their seconds, for each role and reason."""
    found: dict[str, Classes] = {}
    for kind, each in waits_of(status.waited).items():
        first, found[kind] = 0.0, {}
        for bound in sorted(each):
            end = _LONGEST_WAIT if bound == inf else bound
            found[kind][first, end] = each[bound]
            first = end
    return found
