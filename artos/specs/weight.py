"""The weight of a workload: its share, relative to others, where runs take turns."""

from __future__ import annotations

LEAST, MOST = 1e-3, 1e3
"""What is held is divided by it: without bounds that is infinite one day, for all users."""


def weight_faults(weight: float) -> list[str]:
    """Why a number is no weight."""
    if LEAST <= weight <= MOST:  # as NaN is not
        return []
    return [f"weight must be within {LEAST:g} and {MOST:g}, 1 is usual, not {weight:g}"]
