"""The fair queue where some ask for several devices at once: all or none, and nobody starves."""

from __future__ import annotations

import random
from collections import Counter
from typing import ClassVar

import pytest
from fair_queue_world import Client, Watched, World
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artos.pool.accounts import Account
from artos.pool.fair_queue import FairQueue, turn_of_one
from artos.pool.resources import Places, Resource, Want

DEVICES = [Resource("a"), Resource("b")]
BOTH = Want("a", beside=(Want("b"),))


def queue(patience: float = 60.0) -> FairQueue[str]:
    return FairQueue(DEVICES, patience=patience)


def test_a_party_has_all_or_nothing() -> None:
    line = queue()
    line.request("one", "w", 0.0, want=Want("b"))
    line.grants(0.0)
    line.request("both", "p", 1.0, want=BOTH)
    assert line.grants(1.0) == []
    assert line.places.room(Want("a")) == "a", "the party has nothing of it"
    line.release("one", 2.0)
    assert line.grants(2.0) == [("both", "a")]
    assert line.places.full
    line.release("both", 5.0)
    assert line.accounts["p"].seconds_at(5.0) == 6.0, "it is charged for both"
    assert line.places.room(Want("b")) == "b"


def test_two_parties_of_two_on_two_devices_take_turns() -> None:
    line, order = queue(), list[str]()
    for name in ("one", "two"):
        line.request(name, name, 0.0, want=BOTH)
    for second in range(20):
        ((name, _),) = line.grants(float(second))
        order.append(name)
        line.release(name, second + 1.0)
        line.request(name, name, second + 1.0, want=BOTH)
    assert order == ["one", "two"] * 10


def test_what_is_free_is_kept_for_the_party_whose_turn_it_is() -> None:
    line = queue()
    for name, want in (("x", Want("a")), ("y", Want("b"))):
        line.request(name, name, 0.0, want=want)
    assert line.grants(0.0) == [("x", "a"), ("y", "b")]
    line.request("both", "p", 1.0, want=BOTH)
    line.release("x", 5.0)
    line.request("x", "x", 5.0, want=Want("a"))
    assert line.grants(5.0) == [], "x has held more"
    line.release("y", 6.0)
    line.request("y", "y", 6.0, want=Want("b"))
    assert line.grants(6.0) == [("both", "a")]


def test_nothing_is_kept_for_a_party_whose_turn_it_is_not() -> None:
    line = queue()
    line.request("both", "p", 0.0, want=BOTH)
    line.grants(0.0)
    line.request("x", "x", 1.0, want=Want("a"))
    line.request("y", "y", 1.0, want=Want("b"))
    line.release("both", 10.0)
    line.request("both", "p", 10.0, want=BOTH)
    assert [name for name, _ in line.grants(10.0)] == ["x", "y"]
    line.release("x", 11.0)
    line.request("x", "x", 11.0, want=Want("a"))
    assert line.grants(11.0) == [("x", "a")], "the party has held more, so a does not idle"


def test_a_higher_priority_has_what_would_be_kept() -> None:
    line = queue()
    line.request("y", "y", 0.0, want=Want("b"))
    line.grants(0.0)
    line.request("both", "p", 1.0, want=BOTH)
    line.request("x", "x", 1.0, want=Want("a"), priority=1)
    assert line.grants(1.0) == [("x", "a")]


@pytest.mark.parametrize("now", [2.0, 200.0])
def test_a_device_that_several_share_is_kept_for_a_party_but_for_one_of_them(now: float) -> None:
    """Also once the party is overdue: others may have what it does not need."""
    line: FairQueue[str] = FairQueue([Resource("a", share=3, memory_mb=100), Resource("b")])
    line.request("y", "y", 0.0, want=Want("b"))
    line.grants(0.0)
    line.request("both", "p", 1.0, want=Want("a", 40, beside=(Want("b"),)), priority=1)
    for name, memory_mb in (("large", 70), ("one", 20), ("two", 20), ("three", 20)):
        line.request(name, name, 1.0, want=Want("a", memory_mb))
    assert {name for name, _ in line.grants(now)} == {"one", "two"}
    assert line.grants(now) == []
    line.release("y", now)
    assert line.grants(now) == [("both", "a")]


def test_nothing_is_kept_for_a_party_that_lacks_memory() -> None:
    """Nobody knows how long that takes; once it is overdue, what it asks for is kept."""
    line: FairQueue[str] = FairQueue([Resource("a"), Resource("b", share=2, memory_mb=100)])
    line.request("y", "y", 0.0, want=Want("b", 60))
    line.grants(0.0)
    line.request("both", "p", 1.0, want=Want("a", beside=(Want("b", 60),)), priority=1)
    line.request("x", "x", 1.0, want=Want("a"))
    assert line.grants(1.0) == [("x", "a")]
    line.release("x", 100.0)
    line.request("x", "x", 100.0, want=Want("a"))
    assert line.grants(100.0) == [("x", "a")]
    line.release("x", 101.0)
    line.request("x", "x", 101.0, want=Want("a"))
    assert line.grants(101.0) == []


def test_only_one_party_at_a_time_has_something_kept() -> None:
    line: FairQueue[str] = FairQueue([Resource(name) for name in "abc"])
    line.request("y", "y", 0.0, want=Want("b"))
    line.grants(0.0)
    line.request("ab", "p", 1.0, want=BOTH)
    line.request("cb", "q", 1.0, want=Want("c", beside=(Want("b"),)))
    line.request("z", "z", 1.0, want=Want("c"))
    assert line.grants(1.0) == [("z", "c")]


def test_one_that_is_overdue_gets_what_is_kept_for_a_party() -> None:
    """The party comes first all the time, and the other device never comes free."""
    line = queue(patience=10.0)
    line.request("y", "y", 0.0, want=Want("b"))
    line.grants(0.0)
    line.request("x", "x", 0.0, want=Want("a"))
    line.request("both", "p", 2.0, want=BOTH, priority=1)
    line.grants(0.0)
    line.release("x", 1.0)
    line.request("x", "x", 1.0, want=Want("a"))
    assert [name for name, _ in line.grants(12.0)] == ["x"]


def shares(weights: dict[str, float], pause: float) -> dict[str, float]:
    """Which part of all held seconds those had that ask for a, for b, and for both."""
    line: FairQueue[Client] = FairQueue(
        DEVICES, [Account(name, weight) for name, weight in weights.items()]
    )
    world = World(line, DEVICES, 1)
    for name, want in (("x", Want("a")), ("y", Want("b")), ("both", BOTH)):
        world.at(0.0, "ask", Client(name, name, 1.0, pause, want=want))
    world.run(until=4000.0)
    total = sum(world.seconds.values())
    return {name: world.seconds[name] / total for name in weights}


@pytest.mark.parametrize(
    ("weights", "ideal"),
    [
        ({"x": 1.0, "y": 1.0, "both": 1.0}, 1 / 3),
        ({"x": 1.0, "y": 1.0, "both": 2.0}, 1 / 2),
    ],
)
def test_neither_a_party_nor_singles_starve(weights: dict[str, float], ideal: float) -> None:
    """Weights hold between them, though the party needs both devices at once."""
    found = shares(weights, pause=0.0)
    assert found["both"] == pytest.approx(ideal, rel=0.12)
    assert found["x"] == pytest.approx(found["y"], rel=0.12)


def test_singles_that_pause_leave_a_party_its_part() -> None:
    """Each of the devices is free a third of the time, and seldom both are."""
    assert shares({"x": 1.0, "y": 1.0, "both": 1.0}, pause=0.3)["both"] > 0.25


LEASE, PATIENCE = 3.0, 20.0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_no_wait_is_longer_than_its_bound(seed: int) -> None:
    """Thousands of arrivals, of parties and others, at devices that are too few for them."""
    resources = [Resource("r0", share=3, memory_mb=100), Resource("r1"), Resource("r2", share=2)]
    world = Watched(FairQueue(resources, patience=PATIENCE), resources, seed, LEASE)
    dice, time = random.Random(seed), 0.0
    for number in range(4000):
        time += dice.expovariate(2.0)
        first, second = dice.sample(["r0", "r1", "r2"], 2)
        small, beside = Want(first, dice.choice([10, 60])), (Want(second),)
        world.at(
            time,
            "ask",
            Client(
                str(number), f"w{dice.randint(0, 9)}", LEASE, -1.0, dice.choice([0, 0, 0, 1, 5]),
                dice.choice([Want(), small, small._replace(beside=beside)]),
            ),
        )  # fmt: skip
    world.run()
    assert world.served == 4000
    assert world.overdue > 100, "the devices were not too few"


class Model(RuleBasedStateMachine):
    """A free unit for which one waits is kept for a party that comes before that one.

    That party needs it, and lacks another one; no more than that is kept of a device.
    """

    WANTS = (Want("a"), Want("b"), Want(), BOTH)
    SHARES: ClassVar = {"a": 1, "b": 1}

    def __init__(self) -> None:
        super().__init__()
        resources = [Resource(name, share=share) for name, share in self.SHARES.items()]
        self.line: FairQueue[int] = FairQueue(resources, patience=1e9)
        self.now = 0.0
        self.held, self.waiting = dict[int, set[str]](), set[int]()

    @rule(who=st.integers(0, 11), priority=st.integers(0, 1))
    def ask(self, who: int, priority: int) -> None:
        if who not in self.held:
            want = self.WANTS[who % 4]
            self.line.request(who, f"w{who % 5}", self.now, want=want, priority=priority)
            self.waiting.add(who)
            self.decide()

    @rule(who=st.integers(0, 11))
    def release(self, who: int) -> None:
        self.line.release(who, self.now)
        self.held.pop(who, None)
        self.decide()

    @rule(who=st.integers(0, 11))
    def withdraw(self, who: int) -> None:
        self.line.withdraw(who)
        self.waiting.discard(who)
        self.decide()

    @rule(seconds=st.floats(0.0, 20.0))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @property
    def free(self) -> Counter[str]:
        """How many units of each device are, those of which there are none left out."""
        return Counter(self.SHARES) - Counter(n for names in self.held.values() for n in names)

    def decide(self) -> None:
        for who, resource in self.line.grants(self.now):
            self.waiting.remove(who)
            want = self.WANTS[who % 4]
            self.held[who] = {resource, *(each.name for each in want.beside)}
        free = self.free
        for who in self.waiting:
            want = self.WANTS[who % 4]
            usable = [name for name in free if want.name in ("", name)]
            if not want.beside and usable:
                parties = [other for other in self.waiting if self.WANTS[other % 4].beside]
                assert len(free) == 1, "a party that could have both has both"
                assert [free[name] for name in usable] == [1], "it needs no more than one"
                assert any(self.key(party) <= self.key(who) for party in parties)

    def key(self, who: int) -> tuple[int, float]:
        """What those that wait are compared by."""
        entry = self.line._entries[who]
        assert entry.queue is not None
        ahead = (1 + len(entry.want.beside)) / entry.account.weight
        return -entry.queue.key[1], entry.account.virtual(self.now) + ahead

    @invariant()
    def no_device_has_more_holders_than_its_share(self) -> None:
        taken = Counter(name for names in self.held.values() for name in names)
        assert not taken - Counter(self.SHARES)


class SharedModel(Model):
    """Devices that several hold at once."""

    SHARES: ClassVar = {"a": 3, "b": 2}


TestModel, TestSharedModel = Model.TestCase, SharedModel.TestCase


@pytest.mark.parametrize("taken", ["", "a", "b"])
@pytest.mark.parametrize("waited", [1.0, 100.0])
def test_a_party_that_waits_alone_gets_what_a_whole_queue_would_give_it(
    taken: str, waited: float
) -> None:
    line, places, account = queue(), Places.of(DEVICES), Account("w")
    for each in (places, line.places):
        if taken:
            each.add_holder(taken, 0)
    line.wait("one", account, 0.0, want=BOTH)
    turn = turn_of_one(places, BOTH, "", waited, 1)
    line.fair_turns = 1
    assert line.grants(waited) == ([("one", turn.place)] if turn.place else [])
    assert (turn.place is None) == bool(taken)
    assert turn.fair_turns == line.fair_turns
