"""The fair queue: weights hold, nobody starves, nothing is given out twice."""

from __future__ import annotations

import random
from collections import Counter
from typing import ClassVar

import pytest
from fair_queue_world import Client, Watched, World
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from artos.pool.accounts import Account
from artos.pool.fair_queue import OVERDUE_TURN, FairQueue, longest_wait, turn_of_one
from artos.pool.resources import Places, Resource, Want

DEVICE = Resource("cuda:0")


def queue(*resources: Resource, patience: float = 60.0, **weights: float) -> FairQueue[str]:
    accounts = [Account(name, weight) for name, weight in weights.items()]
    return FairQueue(resources or [DEVICE], accounts, patience=patience)


def test_one_holds_and_the_others_wait_in_order() -> None:
    line = queue()
    for name in ("first", "second", "third"):
        line.request(name, "w", 0.0)
    assert line.grants(0.0) == [("first", "cuda:0")]
    assert line.grants(0.0) == []
    line.release("first", 1.0)
    assert line.grants(1.0) == [("second", "cuda:0")]
    assert repr(line) == "<FairQueue held=1 waiting=1>"


def test_asking_giving_back_and_withdrawing_twice_change_nothing() -> None:
    line = queue()
    for name in ("a", "a", "b", "c"):
        line.request(name, "w", 0.0)
    line.grants(0.0)
    line.withdraw("a")
    line.withdraw("b")
    line.withdraw("b")
    for _ in range(2):
        line.release("a", 1.0)
    assert line.grants(1.0) == [("c", "cuda:0")]


def test_the_workload_that_held_least_for_its_weight_is_next() -> None:
    line = queue(heavy=3.0, light=1.0)
    turns: Counter[str] = Counter()
    for name in ("heavy 1", "heavy 2", "light 1", "light 2"):
        line.request(name, name.split()[0], 0.0)
    for second in range(400):
        ((name, _),) = line.grants(float(second))
        turns[name.split()[0]] += 1
        line.release(name, second + 1.0)
        line.request(name, name.split()[0], second + 1.0)
    assert turns == {"heavy": 300, "light": 100}


def test_a_running_lease_counts() -> None:
    line = queue(Resource("d", share=2))
    for name, workload in (("a1", "a"), ("b1", "b"), ("b2", "b"), ("a2", "a")):
        line.request(name, workload, 0.0)
    assert [name for name, _ in line.grants(0.0)] == ["a1", "b1"]
    line.release("b1", 1.0)
    line.request("b1", "b", 1.0)
    assert [name for name, _ in line.grants(9.0)] == ["b2"], "a has held 9 seconds, b only 1"


def test_who_comes_back_does_not_shut_the_others_out() -> None:
    line = queue()
    for at in range(1000):
        line.request("old", "old", float(at))
        line.grants(float(at))
        line.release("old", at + 1.0)
    line.request("new", "new", 1000.0)  # nobody is present: it starts where the last one stopped
    line.grants(1000.0)
    line.request("old", "old", 1000.0)
    line.request("new 2", "new", 1001.0)
    line.release("new", 1005.0)
    assert line.grants(1005.0) == [("old", "cuda:0")]


def test_weights_may_change_and_what_was_held_counts_as_it_did() -> None:
    account = Account("w", 1.0, seconds=30.0)
    account.hold(1, 0.0)
    account.reweigh(3.0, 10.0)
    assert account.virtual(10.0) == pytest.approx(40.0)
    assert account.virtual(40.0) == pytest.approx(50.0)


def test_priority_comes_first_until_somebody_is_overdue() -> None:
    line = queue(patience=5.0)
    line.request("high 0", "high", 0.0, priority=1)
    line.grants(0.0)
    line.request("low", "low", 0.0)
    order = []
    for second in range(20):
        line.release(f"high {second}", second + 1.0)
        line.request(f"high {second + 1}", "high", second + 1.0, priority=1)
        ((name, _),) = line.grants(second + 1.0)
        order.append(name)
        if name == "low":
            break
    assert order[-1] == "low"
    assert len(order) == 6


def test_a_contender_gets_what_it_had_last() -> None:
    line = queue(Resource("a"), Resource("b"))
    line.request("x", "w", 0.0, last="b")
    line.request("y", "w", 0.0, last="nowhere")
    assert line.grants(0.0) == [("x", "b"), ("y", "a")]


def test_what_is_asked_for_by_name_is_given_or_waited_for() -> None:
    line = queue(Resource("a"), Resource("b"))
    for name in ("x", "y"):
        line.request(name, "w", 0.0, want=Want("b"))
    line.request("z", "w", 0.0)
    assert line.grants(0.0) == [("x", "b"), ("z", "a")]
    line.release("z", 1.0)
    assert line.grants(1.0) == []


def test_memory_limits_what_shares_a_device() -> None:
    line = queue(Resource("d", share=3, memory_mb=100))
    for name, need in (("x", 60), ("y", 60), ("z", 40)):
        line.request(name, "w", 0.0, want=Want(memory_mb=need))
    assert line.grants(0.0) == [("x", "d"), ("z", "d")]
    line.release("z", 1.0)
    assert line.grants(1.0) == []
    line.release("x", 1.0)
    assert line.grants(1.0) == [("y", "d")]


def test_what_needs_much_memory_is_not_passed_over_for_ever() -> None:
    line = queue(Resource("d", share=4, memory_mb=100), patience=10.0)
    line.request("small 0", "small", 0.0, want=Want(memory_mb=30))
    line.grants(0.0)
    line.request("big", "big", 0.0, want=Want(memory_mb=100))
    running, got = ["small 0"], 0.0
    for second in range(1, 200):
        line.request(f"small {second}", "small", float(second), want=Want(memory_mb=30))
        for name, _ in line.grants(float(second)):
            running.append(name)
        if "big" in running:
            got = float(second)
            break
        if second % 2:
            line.release(running.pop(0), float(second))
    assert 10.0 < got <= longest_wait(10.0, 0, 10.0)


WEIGHTS = {"a": 1.0, "b": 2.0, "c": 5.0, "d": 0.5}


@pytest.mark.parametrize(
    ("units", "seed"),
    [
        (2, 0),
        *(pytest.param(n, seed, marks=pytest.mark.long) for n in (1, 2, 7) for seed in (1, 2)),
    ],
)
def test_weights_hold_within_five_percent(units: int, seed: int) -> None:
    """Whatever the number of contenders and the lengths of their leases, if all always ask."""
    resources = [Resource(f"d{number}") for number in range(units)]
    queue: FairQueue[Client] = FairQueue(
        resources, [Account(name, weight) for name, weight in WEIGHTS.items()]
    )
    world = World(queue, resources, seed)
    lengths = random.Random(seed)
    for name in WEIGHTS:
        for number in range(units + lengths.randint(1, 20)):
            world.at(0.0, "ask", Client(f"{name}{number}", name, lengths.uniform(0.1, 4.0)))
    world.run(until=4000.0)
    total = sum(world.seconds.values())
    for name, weight in WEIGHTS.items():
        ideal = weight / sum(WEIGHTS.values())
        assert abs(world.seconds[name] / total - ideal) <= 0.05 * ideal, name


@pytest.mark.parametrize("weights", [(1, 1, 1), (2, 1, 1), (2, 1, 1, 1), (4, 2, 1, 1)])
def test_weights_hold_for_those_that_pause_between_leases(weights: tuple[int, ...]) -> None:
    """As learners do, which have nothing to learn from until their actors have sampled."""
    resources = [Resource("d")]
    accounts = [Account(str(number), weight) for number, weight in enumerate(weights)]
    queue: FairQueue[Client] = FairQueue(resources, accounts)
    world = World(queue, resources, 3)
    for account in accounts:
        world.at(0.0, "ask", Client(account.workload, account.workload, 1.0, pause=0.3))
    world.run(until=4000.0)
    total = sum(world.seconds.values())
    for account in accounts:
        ideal = account.weight / sum(weights)
        assert abs(world.seconds[account.workload] / total - ideal) <= 0.12 * ideal, account


LEASE, PATIENCE = 3.0, 20.0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_nobody_starves(seed: int) -> None:
    """10,000 arrivals in a machine that is too small: no wait is longer than its bound."""
    resources = [Resource("r0", share=3, memory_mb=100), Resource("r1"), Resource("r2", share=2)]
    world = Watched(FairQueue(resources, patience=PATIENCE), resources, seed, LEASE)
    dice, time = random.Random(seed), 0.0
    for number in range(10_000):
        time += dice.expovariate(2.6)
        client = Client(
            str(number),
            f"w{min(dice.randint(0, 20), dice.randint(0, 20))}",
            lease=LEASE,
            pause=-1.0,
            priority=dice.choice([0, 0, 0, 1, 5]),
            want=Want(dice.choice(["", "", "", "r0", "r1"]), dice.choice([0, 10, 60, 100])),
        )
        world.at(time, "ask", client)
    world.run()
    assert world.served == 10_000
    assert world.overdue > 100, "the machine was not too small"


class Model(RuleBasedStateMachine):
    """Whatever happens, each resource has at most its share of holders, and no room is wasted."""

    SHARES: ClassVar = {"a": 1, "b": 2}

    def __init__(self) -> None:
        super().__init__()
        self.queue: FairQueue[int] = FairQueue(
            [Resource(name, share=share) for name, share in self.SHARES.items()], patience=5.0
        )
        self.now, self.held, self.waiting = 0.0, dict[int, str](), set[int]()

    @rule(
        who=st.integers(0, 9), name=st.sampled_from(["", "", "a", "b"]), priority=st.integers(0, 1)
    )
    def ask(self, who: int, name: str, priority: int) -> None:
        self.queue.request(who, f"w{who % 3}", self.now, want=Want(name), priority=priority)
        if who not in self.held:
            self.waiting.add(who)

    @rule(who=st.integers(0, 9))
    def release(self, who: int) -> None:
        self.queue.release(who, self.now)
        self.held.pop(who, None)

    @rule(who=st.integers(0, 9))
    def withdraw(self, who: int) -> None:
        self.queue.withdraw(who)
        self.waiting.discard(who)

    @rule(seconds=st.floats(0.0, 20.0))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def decide(self) -> None:
        for who, resource in self.queue.grants(self.now):
            assert who in self.waiting
            self.waiting.discard(who)
            self.held[who] = resource

    @invariant()
    def never_beyond_capacity(self) -> None:
        for name, count in Counter(self.held.values()).items():
            assert count <= self.SHARES[name]

    @precondition(lambda self: self.waiting)
    @rule()
    def nobody_waits_for_what_is_free(self) -> None:
        self.decide()
        loads = Counter(self.held.values())
        free = any(loads[name] < share for name, share in self.SHARES.items())
        assert not (free and any(self.queue._entries[who].want.name == "" for who in self.waiting))


TestModel = Model.TestCase


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 5.0)), min_size=1, max_size=60))
def test_what_was_held_adds_up(turns: list[tuple[int, float]]) -> None:
    line = queue()
    now = 0.0
    for who, length in turns:
        line.request(str(who), f"w{who}", now)
        assert line.grants(now) == [(str(who), "cuda:0")]
        now += length
        line.release(str(who), now)
    held = sum(account.seconds_at(now) for account in line.accounts.values())
    assert held == pytest.approx(now)


@given(
    st.sampled_from(["", "a", "b"]), st.integers(0, 12), st.sampled_from(["", "a", "b"]),
    st.integers(0, 12), st.booleans(), st.floats(0.0, 200.0), st.integers(0, OVERDUE_TURN - 1),
)  # fmt: skip
def test_one_that_waits_alone_gets_what_a_whole_queue_would_give_it(
    name: str, needs: int, last: str, left: int, taken: bool, waited: float, fair_turns: int
) -> None:
    resources = [Resource("a"), Resource("b", share=2, memory_mb=12)]
    line: FairQueue[str] = FairQueue(resources, fair_turns=fair_turns)
    places, want, account = Places.of(resources), Want(name, needs), Account("w")
    for each in (places, line.places):
        each.add_memory("b", left)
        if taken:
            each.add_holder("a", 0)
    line.wait("one", account, 0.0, want=want, last=last)
    granted = line.grants(waited)
    turn = turn_of_one(places, want, last, waited, fair_turns)
    assert granted == ([("one", turn.place)] if turn.place else [])
    assert turn.fair_turns == line.fair_turns
