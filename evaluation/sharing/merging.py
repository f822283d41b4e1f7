"""The measures of several runs as one; imports nothing of ours, so that any interpreter can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MEANS = ("update_s", "mean_s")
"""Measures of which the runs' mean counts; of all others, their sum."""


def together(rates: Sequence[Mapping[str, float]], makespan: float) -> dict[str, float]:
    """The measures of all runs, with ``makespan_s``."""
    found = {
        name: sum(each[name] for each in rates) / (len(rates) if name in MEANS else 1)
        for name in rates[0]
    }
    return {**found, "makespan_s": makespan}
