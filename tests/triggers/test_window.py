"""Where updates take rounds of some actors, slow ones count in full and nothing gets too old."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from test_standing_still import STEPS, Choose, Deed, Play, actors_first, by_chance, learner_first
from test_standing_still import table_of as table
from trigger_helpers import KEYS, arrived, feed, fire, joined, new_plan

from artos.protocol.invocations import Claim
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.events import Published, Rewound
from triggers.pacing import window
from triggers.window import Window


def acted(actors: int, n: int, max_lag: int, order: Choose) -> Play:
    """A play that came to its end."""
    wired = table(n, STEPS, max_lag, 1)
    plan = new_plan(wired, actors=actors, steps=STEPS)
    play = Play(plan, wired, order)
    assert play.goes_on()
    return play


def one_is_slow(deeds: list[Deed]) -> Deed:
    """Actor 0 only goes on when nobody else can."""
    return next((deed for deed in deeds if deed[1] != 0), deeds[0])


ORDERS = (actors_first, learner_first, one_is_slow, *map(by_chance, range(6)))


CASES = [(a, n, lag) for a, n, lag in product(range(2, 6), range(1, 5), range(5)) if n < a]
"""Numbers of actors, ``n`` and ``max_lag``."""


@pytest.mark.parametrize(("actors", "n", "max_lag"), CASES)
def test_nothing_is_dropped_whoever_is_slow(actors: int, n: int, max_lag: int) -> None:
    for order in ORDERS:
        play = acted(actors, n, max_lag, order)
        assert play.dropped == 0
        assert max(lag for _, lag in play.used) <= max_lag


@pytest.mark.parametrize(("actors", "n", "max_lag"), CASES)
def test_the_slow_actor_is_used_as_much_as_it_may(actors: int, n: int, max_lag: int) -> None:
    """It is granted rounds in turn, and each of them is used within ``max_lag`` updates."""
    play = acted(actors, n, max_lag, one_is_slow)
    rounds = Counter(actor for actor, _ in play.used)[0] // STEPS
    assert rounds >= play.version // (actors * (1 + max_lag))


def test_actors_are_as_far_ahead_as_they_may_be() -> None:
    for actors, n, max_lag in (case for case in CASES if case[1] == 1):
        play = acted(actors, n, max_lag, actors_first)
        assert max(lag for _, lag in play.used) == max_lag


@pytest.mark.parametrize(
    "part",
    [
        DataKeyTrigger(KEYS, n=4, size=STEPS, max_lag=1),
        DataKeyTrigger(KEYS, size=STEPS, max_lag=1),
        DataKeyTrigger(KEYS, n=1, size=STEPS),
        DataKeyTrigger(KEYS, n=1, size=2 * STEPS, max_lag=3),
    ],
)
def test_elsewhere_it_is_open(part: DataKeyTrigger) -> None:
    wired = {"learner.update": part, "actors.sample": ObjectKeyTrigger()}
    assert window(new_plan(wired, actors=4, steps=STEPS), wired).n == 0
    assert [p.window.n for p in wired["learner.update"].parts()] == [0]


def test_nobody_waits_for_who_lost_its_place() -> None:
    paces = Window(n=1, max_lag=1)
    paces.granted(0, 0)
    paces.granted(1, 1)
    assert not paces.waits((1,), 0, {1})
    assert paces.waits((1,), 1, {1}), "that of actor 0 is of no use to version 2"
    assert not paces.admits(0)
    paces.void(0)
    assert not paces.waits((1,), 1, {1})
    assert not paces.admits(0), "it will come even so"
    paces.used(0)
    assert paces.admits(0)


def test_an_update_waits_for_a_round_that_would_be_too_old_unless_that_lost_its_place() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2, max_lag=1)
    trigger.window = Window(n=1, max_lag=1)
    for actor, version in ((0, 0), (1, 0), (1, 1)):
        trigger.window.granted(actor, version)
    feed(trigger, [*joined(2), Published("model_param", 0)])
    assert len(fire(trigger, arrived(1, 2))) == 1
    assert feed(trigger, [Published("model_param", 1), arrived(1, 4, version=1)]) == []
    (firing,) = fire(trigger, Rewound(0, 0))
    assert firing.claims == (Claim(1, 2, 4),)


@pytest.mark.parametrize(("newer", "waits"), [(2, False), (3, True)])
def test_rounds_of_all_versions_have_to_be_used_in_time_together(newer: int, waits: bool) -> None:
    """Two of version 0 and so many of version 1: one update is in time for the first, two for all.

    No version has more rounds than the updates take that are in time for it.
    """
    paces = Window(n=2, max_lag=1)
    for actor in range(2 + newer):
        paces.granted(actor, version=int(actor >= 2))
    assert paces.waits((), version=0) == waits


def test_who_was_granted_fewest_rows_is_in_turn_where_rounds_are_paced() -> None:
    granted = {5: 8, 1: 0, 3: 4, 2: 0}
    rows = granted.__getitem__
    assert list(Window(n=1).in_turn(granted, rows)) == [1, 2, 3, 5]
    assert list(Window(n=1).in_turn((5, 2, 1), rows)) == [2, 1, 5], "else as they come"
    assert list(Window().in_turn((5, 2, 1), rows)) == [5, 2, 1]


def test_rounds_are_for_the_very_next_version_if_it_is_not_said() -> None:
    paces = Window(n=1)
    paces.granted(0, 0)
    assert not paces.admits(1)


def test_an_actor_has_several_rounds_under_way_where_updates_take_one() -> None:
    for n, most in ((1, 3), (2, 1)):
        paces = Window(n, max_lag=2)
        count = 0
        while paces.admits(0):
            paces.granted(0, 0)
            count += 1
        assert count == most
