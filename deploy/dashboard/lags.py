"""How old the rows were that a run learned from, in versions."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from artos.protocol.lag import NAMES, in_order, measure
from artos.protocol.views import Status
from deploy.dashboard.reading import Reading
from triggers.journal_index import JournalIndex

_PLACES, _PIECE = 128, 16 << 10
"""Where a long journal is looked at, and how many bytes of it each time."""


class Lags(msgspec.Struct, frozen=True):
    """``counts`` by class of lag, ``of`` rows, or of claims of updates by their rows' mean lag."""

    of: str
    counts: dict[str, int]
    mean: float | None = None
    max: int | None = None
    exact: bool = True
    """Otherwise they are of a sample of the journal."""
    by_actor: dict[str, Any] = {}
    """``mean``, ``max`` and ``rows`` of each actor, once the run is over."""


def of_summary(summary: dict[str, Any]) -> Lags | None:
    """As the summary of a run that is over has it; None if it has none."""
    counts, by_actor = summary.get("lag_histogram"), summary.get("lag_by_actor")
    if not isinstance(counts, dict) or not counts or not isinstance(by_actor, dict):
        return None
    mean, most = summary.get("lag_mean"), summary.get("lag_max")
    return Lags("rows", in_order(counts), mean, most, by_actor=by_actor)


def of_progress(status: Status | None) -> Lags | None:
    """As the newest row of a run's progress counts them; None if it has none, as in old records."""
    if not status or not status.lags:
        return None
    return Lags("rows", in_order(status.lags), status.lag_mean, status.lag_max)


def of_journal(index: JournalIndex) -> Lags:
    """As the updates in the journal tell.

    Raises:
        JournalDamaged: a file of it cannot be read or unpacked.
    """
    exact = index.size <= _PLACES * _PIECE
    step = index.size if exact else index.size // _PLACES
    means = list[float]()
    for begin in range(0, index.size, max(1, step)):
        end = index.size if exact else begin + _PIECE
        for line in Reading(index).lines(begin, end):
            means.extend(mean for _, mean, *_ in line.get("lags", ()))
    if not means:
        return Lags("claims", {}, exact=exact)
    found = measure(0, np.rint(means).clip(0, 2**62).astype(np.int64))
    counts = dict(zip(NAMES, found.classes, strict=False))
    return Lags("claims", counts, fmean(means), found.largest, exact)
