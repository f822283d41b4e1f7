"""How far a learner clears its device while it does not compute: a choice by what each level costs.

Without torch, so that daemons and simulations can ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

_WORTH = 0.05
"""The most of a pause that a clearing may cost that nobody waits for."""


class Level(IntEnum):
    """What a learner gives up, each level more than the one before."""

    KEEP = 0
    """Nothing: only the right to compute changes hands."""
    TRIM = 1
    """Caches and scratch memory."""
    PARK = 2
    """Networks and optimiser state too: they wait in pinned memory of the host."""
    END = 3
    """Its process, which is started again and goes on from the model block."""


class Cost(NamedTuple):
    """What a level frees (bytes) and how long it takes, out and back together (seconds)."""

    freed: int
    seconds: float


def level(costs: Mapping[Level, Cost], missing: int, *, waits: bool, pause: float = 0.0) -> Level:
    """The level at which a holder leaves its device.

    ``costs`` are those of the levels that the holder can be asked for. ``missing`` is how many
    bytes others lack on the device, ``waits`` whether one of them waits to compute, ``pause`` the
    seconds until the holder is expected back.

    As long as there is room for all, everything stays. Else the cheapest level is taken that frees
    enough, and if none does, the one that frees most. Where memory is short and nobody waits, that
    is done only if it costs little of the pause.
    """
    if missing <= 0 or not costs:
        return Level.KEEP
    enough = [each for each in costs if costs[each].freed >= missing]
    if enough:
        found = min(enough, key=lambda each: (costs[each].seconds, each))
    else:
        found = max(costs, key=lambda each: (costs[each].freed, -costs[each].seconds))
    if waits or costs[found].seconds <= _WORTH * pause:
        return found
    return Level.KEEP
