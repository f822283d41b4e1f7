"""How old the rows were that a run learned from, in versions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from artos.protocol.views import Status
from deploy.dashboard.timeline import Reading
from triggers.journal_index import JournalIndex

_PLACES, _PIECE = 128, 16 << 10
"""Where a long journal is looked at, and how many bytes of it each time."""


class Lags(msgspec.Struct, frozen=True):
    """``counts`` by lag, ``of`` rows, or of the claims of updates by the mean lag of their rows."""

    of: str
    counts: dict[str, int]
    exact: bool = True
    """Otherwise they are of a sample of the journal."""
    by_actor: dict[str, Any] = {}
    """``mean``, ``max`` and ``rows`` of each actor, once the run is over."""


def of_summary(summary: dict[str, Any]) -> Lags | None:
    """As the summary of a run that is over has it; None if it has none."""
    counts, by_actor = summary.get("lag_histogram"), summary.get("lag_by_actor")
    if not isinstance(counts, dict) or not counts or not isinstance(by_actor, dict):
        return None
    return Lags("rows", counts, by_actor=by_actor)


def of_progress(status: Status | None) -> Lags | None:
    """As the newest row of a run's progress counts them; None if it has none, as in old records."""
    return Lags("rows", dict(status.lags)) if status and status.lags else None


def of_journal(index: JournalIndex) -> Lags:
    """As the updates in the journal tell.

    Raises:
        JournalDamaged: a file of it cannot be read or unpacked.
    """
    exact = index.size <= _PLACES * _PIECE
    step = index.size if exact else index.size // _PLACES
    counts: Counter[int] = Counter()
    for begin in range(0, index.size, max(1, step)):
        end = index.size if exact else begin + _PIECE
        for line in Reading(index).lines(begin, end):
            counts.update(round(mean) for _, mean, *_ in line.get("lags", ()))
    return Lags("claims", {str(lag): counts[lag] for lag in sorted(counts)}, exact)
