"""DataKeyTrigger: enough rows of some keys from enough actors, each row exactly once."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trigger_helpers import KEYS, arrived, feed, fire, joined, rows

from artos.buffer.samplers.patterns import FIFO, FullBatch, Uniform
from artos.protocol.invocations import Claim
from triggers import DataKeyTrigger, Firing, ReplayTrigger
from triggers.events import Arrived, Event, Joined, Left, Published, Resumed, Rewound, Tick
from triggers.supply import Supply
from triggers.table import decode_trigger


def claims(*ranges: tuple[int, int, int]) -> tuple[Claim, ...]:
    return tuple(Claim(*each) for each in ranges)


def test_full_batch_waits_for_size_rows_from_n_actors() -> None:
    trigger = DataKeyTrigger(KEYS, n=2, size=4)
    assert feed(trigger, [*joined(2), arrived(0, 4), arrived(1, 3)]) == []
    (firing,) = fire(trigger, arrived(1, 4))
    assert firing.claims == claims((0, 0, 4), (1, 0, 4))
    assert firing.keys == KEYS
    assert firing.dropped == ()


def test_rows_that_a_run_goes_on_with_were_handed_over_before() -> None:
    trigger = DataKeyTrigger(KEYS, size=4)
    begun = [Resumed(0, 100), *joined(2), arrived(0, 107)]
    assert feed(trigger, begun) == []
    assert (trigger.taken(0), trigger.taken(1)) == (100, 0)
    (firing,) = fire(trigger, arrived(1, 4))
    assert firing.claims == claims((0, 100, 104), (1, 0, 4))


def test_patterns_that_claim_are_said_by_the_names_of_table_1() -> None:
    assert DataKeyTrigger(KEYS, sample=FullBatch(), size=4) == DataKeyTrigger(KEYS, size=4)
    assert DataKeyTrigger(KEYS, sample=FIFO(), size=4) == DataKeyTrigger(KEYS, n=1, size=4)
    trigger = DataKeyTrigger(KEYS, sample=FIFO(3), size=4, max_lag=2)
    data = msgspec.json.decode(msgspec.json.encode(trigger.encode()))
    assert decode_trigger(data, pytest.fail) == trigger == DataKeyTrigger(KEYS, 3, 4, 2)


def test_a_pattern_stands_where_it_means_something() -> None:
    with pytest.raises(TypeError, match=r"FullBatch\(\), FIFO\(n\) or Episodes\(n\); Uniform"):
        DataKeyTrigger(KEYS, sample=Uniform(8))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"say n=2 or sample=FIFO\(n=1\), not both"):
        DataKeyTrigger(KEYS, n=2, sample=FIFO())
    with pytest.raises(TypeError, match=r"not FIFO\(n=1\), which is for a DataKeyTrigger"):
        ReplayTrigger(KEYS, FIFO())  # type: ignore[arg-type]


def test_all_keys_must_have_arrived_and_unnamed_keys_do_not_matter() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2)
    assert feed(trigger, [*joined(1), Arrived(0, {"observations": 9, "dones": 9})]) == []
    assert len(fire(trigger, Arrived(0, {"rewards": 2}))) == 1


def test_a_stage_of_other_keys_does_not_take_back_what_arrived() -> None:
    trigger = DataKeyTrigger(("observations",), n=2, size=4)
    ready = [*joined(2), arrived(0, 4, keys=["observations"]), arrived(0, 8, keys=["rewards"])]
    assert feed(trigger, ready) == []
    assert len(fire(trigger, arrived(1, 4, keys=["observations"]))) == 1


def test_one_key_may_be_given_as_a_word() -> None:
    trigger = DataKeyTrigger("rewards", n=1)  # type: ignore[arg-type]
    assert trigger.keys_read() == ("rewards",)
    assert len(feed(trigger, [Joined(0), Arrived(0, {"rewards": 1})])) == 1


def test_n_none_follows_who_joins_and_leaves() -> None:
    trigger = DataKeyTrigger(KEYS, n=None, size=1)
    assert feed(trigger, [*joined(3), arrived(0, 1), arrived(1, 1)]) == []
    (firing,) = fire(trigger, Left(2))
    assert firing.claims == claims((0, 0, 1), (1, 0, 1))
    assert feed(trigger, [Joined(3), arrived(0, 2), arrived(1, 2)]) == []
    assert len(fire(trigger, arrived(3, 1))) == 1


def test_without_actors_nothing_fires() -> None:
    assert feed(DataKeyTrigger(KEYS, n=None), [Tick(), arrived(0, 5), Published("x", 1)]) == []


def test_an_actor_that_comes_back_goes_on_where_it_left() -> None:
    trigger = DataKeyTrigger(KEYS, size=2)
    assert len(feed(trigger, [Joined(0), arrived(0, 2)])) == 1
    assert feed(trigger, [Left(0, 2), arrived(0, 5), arrived(0, 6)]) == []
    assert [f.claims for f in fire(trigger, Joined(0))] == [claims((0, 2, 4)), claims((0, 4, 6))]


def test_first_come_first_served_takes_the_rows_of_who_left() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2)
    feed(trigger, [*joined(2), Left(1)])
    assert [f.claims for f in fire(trigger, arrived(1, 4))] == [
        claims((1, 0, 2)),
        claims((1, 2, 4)),
    ]


def test_a_full_batch_under_way_waits_for_who_leaves() -> None:
    """Actor 1 still has the round up to row 4 to sample; later ones go without it."""
    trigger = DataKeyTrigger(KEYS, size=2)
    assert feed(trigger, [*joined(2), Left(1, rows=4), arrived(0, 2), arrived(0, 4)]) == []
    assert [f.claims for f in fire(trigger, arrived(1, 2))] == [claims((0, 0, 2), (1, 0, 2))]
    assert [f.claims for f in fire(trigger, arrived(1, 4))] == [claims((0, 2, 4), (1, 2, 4))]
    assert [f.claims for f in fire(trigger, arrived(0, 6))] == [claims((0, 4, 6))]


def test_a_full_batch_under_way_does_not_wait_for_who_comes() -> None:
    """Actor 1 falls in with the round of actor 0 that begins at row 4."""
    trigger = DataKeyTrigger(KEYS, size=2)
    feed(trigger, [Joined(0), Joined(1, peer=0, rows=4)])
    assert [f.claims for f in fire(trigger, arrived(0, 2))] == [claims((0, 0, 2))]
    assert fire(trigger, arrived(1, 2)) == []
    assert [f.claims for f in fire(trigger, arrived(0, 6))] == [
        claims((0, 2, 4)), claims((0, 4, 6), (1, 0, 2))
    ]  # fmt: skip


def test_who_leaves_and_comes_back_before_its_last_round_is_used_sits_one_out() -> None:
    trigger = DataKeyTrigger(KEYS, size=2)
    feed(trigger, [*joined(2), Left(1, rows=2), Joined(1, peer=0, rows=4)])
    feed(trigger, [arrived(1, 4)])
    fired = [feed(trigger, [arrived(0, rows)]) for rows in (2, 4, 6)]
    assert [[f.claims for f in firings] for firings in fired] == [
        [claims((0, 0, 2), (1, 0, 2))], [claims((0, 2, 4))], [claims((0, 4, 6), (1, 2, 4))]
    ]  # fmt: skip


def test_rows_too_few_for_a_batch_hold_nobody_up() -> None:
    trigger = DataKeyTrigger(KEYS, size=4)
    feed(trigger, [*joined(2), Left(1, rows=6), arrived(1, 6)])
    assert [f.claims for f in fire(trigger, arrived(0, 8))] == [
        claims((0, 0, 4), (1, 0, 4)), claims((0, 4, 8))
    ]  # fmt: skip


def test_rows_given_up_count_as_handed_over_for_who_comes_and_goes() -> None:
    trigger = DataKeyTrigger(KEYS, size=2, max_lag=0)
    feed(trigger, [*joined(2), Published("model_param", 1)])
    feed(trigger, [Left(1, rows=2), Joined(2, peer=0, rows=2)])
    stale = feed(trigger, [arrived(0, 2, version=0), arrived(1, 2, version=0)])
    assert [f.dropped for f in stale] == [claims((0, 0, 2), (1, 0, 2))]
    assert feed(trigger, [arrived(0, 4, version=1)]) == []
    assert [f.claims for f in fire(trigger, arrived(2, 2, version=1))] == [
        claims((0, 2, 4), (2, 0, 2))
    ]


def test_fifo_serves_actors_in_the_order_in_which_they_became_ready() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2)
    feed(trigger, joined(3))
    served = feed(trigger, [arrived(2, 2), arrived(0, 2), arrived(1, 2), arrived(0, 4)])
    assert [f.claims[0].actor for f in served] == [2, 0, 1, 0]


def test_a_fast_actor_starves_nobody() -> None:
    trigger = DataKeyTrigger(KEYS, n=2, size=1)
    feed(trigger, [*joined(3), arrived(0, 100)])
    served = feed(trigger, [arrived(1, 50), arrived(2, 50)])
    counts = [sum(c.actor == actor for f in served for c in f.claims) for actor in range(3)]
    assert counts == [100, 50, 50]


def test_size_smaller_than_a_round_fires_several_times_on_one_event() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=4)
    firings = feed(trigger, [Joined(0), arrived(0, 10)])
    assert [f.claims for f in firings] == [claims((0, 0, 4)), claims((0, 4, 8))]
    assert [f.claims for f in fire(trigger, arrived(0, 12))] == [claims((0, 8, 12))]


def test_size_larger_than_a_round_waits_for_several() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=10)
    assert feed(trigger, [Joined(0), arrived(0, 4), arrived(0, 8)]) == []
    assert fire(trigger, arrived(0, 12))[0].claims == claims((0, 0, 10))


def test_too_old_rows_are_dropped_and_reported() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2, max_lag=1)
    feed(trigger, [Joined(0), Published("model_param", 5)])
    (old,) = fire(trigger, arrived(0, 2, version=3))
    assert (old.claims, old.dropped) == ((), claims((0, 0, 2)))
    (young,) = fire(trigger, arrived(0, 4, version=4))
    assert (young.claims, young.dropped) == (claims((0, 2, 4)), ())


def test_only_the_stale_actors_of_a_batch_are_dropped() -> None:
    trigger = DataKeyTrigger(KEYS, n=2, size=1, max_lag=0)
    feed(trigger, [*joined(2), Published("model_param", 1), arrived(0, 1, version=1)])
    assert [f.dropped for f in fire(trigger, arrived(1, 1, version=0))] == [claims((1, 0, 1))]
    assert [f.claims for f in fire(trigger, arrived(1, 2, version=1))] == [
        claims((0, 0, 1), (1, 1, 2))
    ]


def test_what_is_still_ahead_of_the_learner_counts_as_lag() -> None:
    """FIFO with four rounds of one version: the fourth would be three versions old when used."""
    trigger = DataKeyTrigger(KEYS, n=1, size=1, max_lag=1)
    feed(trigger, [*joined(4), Published("model_param", 0)])
    handed = feed(trigger, [arrived(actor, 1) for actor in range(4)])
    assert [bool(f.claims) for f in handed] == [True, True, False, False]
    fire(trigger, Published("model_param", 1, ahead=1))
    (next_one,) = fire(trigger, arrived(0, 2, version=0))
    assert next_one.dropped


def test_another_object_is_no_version_of_the_policy() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, max_lag=0)
    feed(trigger, [Joined(0), Published("noise_scale", 9)])
    assert fire(trigger, arrived(0, 1))[0].claims


class World:
    """Actors that write rows, a learner that takes firings in order and mints a version of each."""

    def __init__(self, actors: int, trigger: DataKeyTrigger) -> None:
        self.trigger, self.version, self.written = trigger, 0, [0] * actors
        self.version_of: dict[tuple[int, int], int] = {}
        self.bound = [0] * actors
        self.queue: deque[Firing] = deque()
        self.dropped: list[tuple[int, int]] = []
        self.consumed: list[tuple[int, int]] = []
        self.lags: list[int] = []
        for actor in range(actors):
            self.see(Joined(actor))
        self.see(Published("model_param", 0))

    def see(self, event: Event) -> None:
        for firing in fire(self.trigger, event):
            self.dropped += rows(firing.dropped)
            if firing.claims:
                self.queue.append(firing)

    def sample(self, actor: int, count: int, pull: bool) -> None:
        if pull:
            self.bound[actor] = self.version
        for step in range(self.written[actor], self.written[actor] + count):
            self.version_of[actor, step] = self.bound[actor]
        self.written[actor] += count
        self.see(arrived(actor, self.written[actor], self.bound[actor]))

    def learn(self) -> None:
        if self.queue:
            taken = rows(self.queue.popleft().claims)
            self.consumed += taken
            self.lags += [self.version - self.version_of[row] for row in taken]
            self.version += 1
            self.see(Published("model_param", self.version, ahead=len(self.queue)))


STEPS = st.lists(
    st.one_of(
        st.none(),
        st.tuples(st.integers(0, 2), st.integers(1, 5), st.booleans()),
    ),
    max_size=60,
)


@given(
    steps=STEPS,
    n=st.sampled_from([None, 1, 2, 3]),
    size=st.integers(1, 4),
    max_lag=st.sampled_from([None, 0, 1, 2, 5]),
)
def test_no_row_exceeds_the_bound_and_each_goes_exactly_one_way(
    steps: list[tuple[int, int, bool] | None], n: int | None, size: int, max_lag: int | None
) -> None:
    world = World(3, DataKeyTrigger(KEYS, n=n, size=size, max_lag=max_lag))
    for step in steps:
        world.learn() if step is None else world.sample(*step)
    while world.queue:
        world.learn()
    if max_lag is not None:
        assert max(world.lags, default=0) <= max_lag
    else:
        assert world.dropped == []
    went = world.consumed + world.dropped
    assert len(went) == len(set(went))
    assert set(went) <= set(world.version_of)
    for actor in range(3):
        steps_of = sorted(step for who, step in went if who == actor)
        assert steps_of == list(range(len(steps_of))), "rows go in order, none is skipped"
        whole = (world.written[actor] // size) * size
        assert len(steps_of) <= whole
        if n == 1:
            assert len(steps_of) == whole, "FIFO leaves only incomplete amounts behind"


@given(order=st.permutations(range(4)), size=st.integers(1, 3))
def test_the_same_rows_make_the_same_batch_whoever_was_ready_first(
    order: list[int], size: int
) -> None:
    trigger = DataKeyTrigger(KEYS, n=4, size=size)
    feed(trigger, joined(4))
    (firing,) = feed(trigger, [arrived(actor, size) for actor in order])
    assert [c.actor for c in firing.claims] == [0, 1, 2, 3]


@pytest.mark.parametrize("max_lag", [None, 0])
def test_what_a_trigger_remembers_does_not_grow_with_the_rows(max_lag: int | None) -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=1, max_lag=max_lag)
    feed(trigger, [Joined(0)])
    for step in range(1, 500):
        feed(trigger, [Published("model_param", step), arrived(0, step, version=step)])
        feed(trigger, [Joined(1, peer=0, rows=step), Left(1)])
    assert len(trigger._supplies[0]._runs) <= 1
    assert not trigger._members._changes


def test_rows_that_are_void_are_waited_for_again() -> None:
    trigger = DataKeyTrigger(KEYS, n=2, size=4)
    assert feed(trigger, [*joined(2), arrived(0, 6), Rewound(0, 3), arrived(1, 4)]) == []
    (firing,) = fire(trigger, arrived(0, 4))
    assert firing.claims == claims((0, 0, 4), (1, 0, 4))


def test_rows_that_were_claimed_are_claimed_once_even_if_they_arrive_again() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=4)
    assert len(feed(trigger, [Joined(0), arrived(0, 4), Rewound(0, 0)])) == 1
    assert feed(trigger, [arrived(0, 2), arrived(0, 4), arrived(0, 7)]) == []
    (firing,) = fire(trigger, arrived(0, 8))
    assert firing.claims == claims((0, 4, 8))


def test_rows_that_come_again_after_they_were_claimed_have_no_version_any_more() -> None:
    supply = Supply(KEYS)
    supply.add(dict.fromkeys(KEYS, 4), 1)
    supply.take(4)
    supply.rewind(0)
    supply.add(dict.fromkeys(KEYS, 4), 5)
    supply.add(dict.fromkeys(KEYS, 8), 6)
    assert (supply.left, supply.oldest_version) == (4, 6)


@given(st.data())
def test_a_supply_after_a_rewind_is_as_if_the_void_rows_had_never_come(data: st.DataObject) -> None:
    versions = sorted(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12)))
    keep = data.draw(st.integers(0, len(versions)))
    taken = data.draw(st.integers(0, keep))
    rewound, plain = Supply(KEYS), Supply(KEYS)
    for count, version in enumerate(versions, 1):
        rewound.add(dict.fromkeys(KEYS, count), version)
        if count <= keep:
            plain.add(dict.fromkeys(KEYS, count), version)
    for supply in (rewound, plain):
        supply.take(taken)
    rewound.rewind(keep)
    for count in range(keep, len(versions) + 1):
        for supply in (rewound, plain):
            supply.add(dict.fromkeys(KEYS, count), 9)
        assert rewound.available == plain.available
    while plain.left:
        assert rewound.oldest_version == plain.oldest_version
        assert rewound.take(1) == plain.take(1)
    assert rewound.left == 0
