"""Where actors live: everyone somewhere, nobody moved without need, slots shared fairly."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from head.daemon.roster import POLICIES, Room, place, relieved, shares

ROOMS = st.lists(
    st.builds(Room, st.sampled_from("abcdefgh"), st.integers(1, 8), st.integers(0, 5)),
    max_size=6, unique_by=lambda room: room.name,
)  # fmt: skip
HERE = st.dictionaries(st.integers(0, 30), st.sampled_from("abcdefghxy"))
POLICY = st.sampled_from(POLICIES)


@given(st.integers(0, 30), HERE, ROOMS, POLICY)
def test_all_have_a_place_if_there_is_room_at_all(actors, here, rooms, policy) -> None:
    places = place(actors, here, rooms, policy)
    assert set(places) == (set(range(actors)) if rooms else set())
    assert set(places.values()) <= {room.name for room in rooms}


@given(st.integers(0, 30), HERE, ROOMS, POLICY)
def test_who_may_stay_stays(actors, here, rooms, policy) -> None:
    places = place(actors, here, rooms, policy)
    names = {room.name for room in rooms}
    staying = {a: n for a, n in here.items() if a < actors and n in names}
    assert staying.items() <= places.items()


@given(st.integers(1, 30), ROOMS.filter(bool), POLICY)
def test_placing_again_changes_nothing(actors, rooms, policy) -> None:
    places = place(actors, {}, rooms, policy)
    assert place(actors, places, rooms, policy) == places


@given(st.integers(1, 60), ROOMS.filter(bool))
def test_spread_loads_slots_evenly(actors, rooms) -> None:
    """No actor could have been put on a node with less load per slot than it found."""
    counts = Counter(place(actors, {}, rooms, "spread").values())
    after = {room.name: (room.taken + counts[room.name]) / room.slots for room in rooms}
    for room in rooms:
        if counts[room.name]:
            others = ((o.taken + counts[o.name] + 1) / o.slots for o in rooms)
            assert all(after[room.name] <= other for other in others)


@given(st.integers(1, 60), ROOMS.filter(bool))
def test_pack_leaves_a_node_free_only_while_no_other_slot_is(actors, rooms) -> None:
    counts = Counter(place(actors, {}, rooms, "pack").values())
    half_full = [r for r in rooms if counts[r.name] > 0 and counts[r.name] + r.taken < r.slots]
    assert len(half_full) <= 1


def test_the_first_actors_of_a_run_are_spread_too() -> None:
    """Only the first few may be at work (scaling): they must not all sit on one node."""
    places = place(4, {}, [Room("a", 2), Room("b", 2)], "spread")
    assert places == {0: "a", 1: "b", 2: "a", 3: "b"}
    assert place(4, {}, [Room("a", 2), Room("b", 2)], "pack") == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_only_those_of_a_node_that_goes_move() -> None:
    before = place(6, {}, [Room("a", 2), Room("b", 2), Room("c", 2)], "spread")
    after = place(6, before, [Room("a", 2), Room("c", 2)], "spread")
    assert {a for a in before if before[a] != after[a]} == {a for a in before if before[a] == "b"}
    assert Counter(after.values()) == {"a": 3, "c": 3}


@given(st.integers(0, 30), HERE, ROOMS, POLICY)
def test_whoever_moves_off_a_crowded_node_is_better_off(actors, here, rooms, policy) -> None:
    before = place(actors, here, rooms, policy)
    after = relieved(before, rooms)
    assert set(after) == set(before)
    assert relieved(after, rooms) == after

    def load(places) -> dict[str, float]:
        counts = Counter(places.values())
        return {room.name: (room.taken + counts[room.name]) / room.slots for room in rooms}

    then, now = load(before), load(after)
    for actor, node in before.items():
        if after[actor] != node:
            assert then[node] > 1
            assert now[after[actor]] < then[node]
    for room in rooms:
        if now[room.name] > 1 and room.name in after.values():
            counts = Counter(after.values())
            others = ((o.taken + counts[o.name] + 1) / o.slots for o in rooms)
            assert all(now[room.name] <= other for other in others)


def test_who_has_a_slot_stays() -> None:
    here = {0: "a", 1: "a"}
    assert relieved(here, [Room("a", 2), Room("b", 8)]) == here
    crowded = dict.fromkeys(range(6), "a")
    after = relieved(crowded, [Room("a", 2), Room("b", 4)])
    assert after == {0: "a", 1: "a", 2: "b", 3: "b", 4: "b", 5: "b"}


def test_pack_goes_on_where_somebody_is_already() -> None:
    rooms = [Room("a", 2), Room("b", 4, taken=1), Room("c", 2)]
    assert [*place(5, {}, rooms, "pack").values()] == ["b", "b", "b", "a", "a"]


def test_what_does_not_divide_goes_to_the_first() -> None:
    assert shares(3, {"r": 5, "s": 5}) == {"r": 2, "s": 1}
    assert shares(8, {"r": 9, "s": 1, "t": 9}) == {"s": 1, "r": 4, "t": 3}


def test_a_run_of_twice_the_weight_is_expected_to_have_twice_the_slots() -> None:
    assert shares(6, {"r": 9, "s": 9}, {"r": 1.0, "s": 2.0}) == {"r": 2, "s": 4}
    assert shares(6, {"r": 9, "s": 3}, {"r": 1.0, "s": 2.0}) == {"r": 3, "s": 3}, "it needs no more"
    assert shares(3, {"r": 9, "s": 9}, {"r": 1.0, "s": 99.0}) == {"r": 1, "s": 2}, "one at least"


WISHES = st.dictionaries(st.sampled_from("rstuvw"), st.integers(1, 20), min_size=1)


@given(WISHES, st.integers(0, 30))
def test_shares_are_max_min_fair(wishes, more) -> None:
    slots = len(wishes) + more
    given_ = shares(slots, wishes)
    assert given_.keys() == wishes.keys()
    assert sum(given_.values()) == min(slots, sum(wishes.values()))
    assert all(1 <= given_[run] <= wishes[run] for run in wishes)
    for run in wishes:
        if (
            given_[run] < wishes[run]
        ):  # who got less than wished got as much as anybody, or one less
            assert all(given_[other] <= given_[run] + 1 for other in wishes)


@pytest.mark.parametrize("slots", [1, 2, 3, 16])
def test_one_run_alone_gets_all_that_it_can_use(slots: int) -> None:
    assert shares(slots, {"r": 8}) == {"r": min(8, slots)}
    assert shares(slots, {}) == {}
