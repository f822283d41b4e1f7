"""Which level is taken, by what each costs and by who waits."""

from __future__ import annotations

import pytest

from artos.specs.levels import Cost, Level, level

KEEP, TRIM, PARK, END = Level
COSTS = {TRIM: Cost(100, 0.001), PARK: Cost(1_000, 0.005), END: Cost(5_000, 4.0)}


@pytest.mark.parametrize(
    ("missing", "waits", "pause", "found"),
    [
        (0, True, 100.0, KEEP),  # there is room for both: only the lock changes hands
        (-5, True, 100.0, KEEP),
        (1, True, 0.0, TRIM),
        (100, True, 0.0, TRIM),
        (101, True, 0.0, PARK),
        (1_001, True, 0.0, END),  # whatever it costs: else who waits would starve
        (9_999, True, 0.0, END),  # nothing is enough, so as much as there is
        (101, False, 0.0, KEEP),  # nobody waits: it stays where it is
        (101, False, 0.2, PARK),  # unless it is away for long
        (1_001, False, 10.0, KEEP),
        (1_001, False, 1_000.0, END),
    ],
)
def test_levels(missing: int, waits: bool, pause: float, found: Level) -> None:
    assert level(COSTS, missing, waits=waits, pause=pause) is found


def test_costs_decide_not_the_order_of_levels() -> None:
    costs = {TRIM: Cost(1_000, 0.02), PARK: Cost(1_000, 0.005)}
    assert level(costs, 500, waits=True) is PARK


def test_of_equals_the_lower_one() -> None:
    costs = {PARK: Cost(1_000, 0.005), TRIM: Cost(1_000, 0.005)}
    assert level(costs, 500, waits=True) is TRIM
    assert level(costs, 5_000, waits=True) in (TRIM, PARK)


def test_a_holder_that_can_give_nothing() -> None:
    assert level({}, 5, waits=True) is KEEP
