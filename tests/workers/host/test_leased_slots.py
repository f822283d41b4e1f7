"""Slots of several runs in one pool: each has as many as its actors need and others leave it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from artos.clock import ManualClock
from artos.errors import ArtosError
from artos.pool.fair_queue import PATIENCE
from artos.pool.faults import PoolFull
from artos.pool.pool import Pool
from tests.support.worker_hosts import until
from workers.host import leased_slots
from workers.host.leased_slots import TURN, LeasedSlots, longest_wait
from workers.host.slots import OwnSlots, Slot, Slots, SlotTable

CPUS = tuple(Slot(cpu) for cpu in range(2))
Name = TypeVar("Name", str, int)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    machine = Machine(monkeypatch)
    yield machine
    machine.close()


class Machine:
    """Runs that share two CPUs, by a clock of the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock(100.0)
        join = Pool.join
        monkeypatch.setattr(Pool, "join", lambda r: join(r, clock=self.clock))
        self.sources: list[Slots] = []
        self.rings: list[str] = []

    def run(
        self, name: str, most: int = 2, slots: tuple[Slot, ...] = CPUS, weight: float = 1.0,
        priority: int = 0,
    ) -> SlotTable[int]:  # fmt: skip
        ring: Callable[[], None] = lambda: self.rings.append(name)  # noqa: E731
        source = leased_slots.leased_slots(
            slots, most, name, ring, self.clock, weight=weight, priority=priority
        )
        self.sources.append(source)
        return SlotTable(source, self.clock)

    def close(self) -> None:
        for source in self.sources:
            source.close()


def cpus(table: SlotTable[int]) -> list[int]:
    return [slot.cpu for _, slot in table.granted()]


def ask(table: SlotTable[int], *holders: int) -> list[int]:
    for holder in holders:
        table.request(holder)
    return cpus(table)


def test_a_run_alone_has_all_slots_and_keeps_none_that_it_does_not_need(shared: Machine) -> None:
    one, two = shared.run("one"), shared.run("two")
    assert ask(one, 1, 2, 3) == [0, 1]
    assert ask(two, 1) == []
    one.withdraw(3)
    one.release(2)
    assert cpus(one) == []
    assert cpus(two) == [1]


def test_actors_come_back_to_their_cpus(shared: Machine) -> None:
    one = shared.run("one")
    assert ask(one, 1, 2) == [0, 1]
    for holder in (2, 1):
        one.release(holder)
    cpus(one)
    assert ask(one, 2) == [1]
    assert ask(one, 1) == [0]


def test_one_who_needs_more_waits_for_the_end_of_a_turn(shared: Machine) -> None:
    one, two = shared.run("one"), shared.run("two")
    ask(one, 1, 2, 3)
    assert not one.is_crowded or one.waiting == (3,)
    ask(two, 1, 2)
    shared.clock.advance(TURN / 2)
    one.release(1)
    assert cpus(one) == [0], "its turn is not over"
    assert cpus(two) == []
    shared.clock.advance(TURN)
    one.request(1)
    one.release(2)
    assert cpus(one) == []
    assert cpus(two) == [1]
    one.release(3)
    assert cpus(one) == [], "each has held less than the other for as long as both wait"
    assert cpus(two) == [0]


def test_those_who_wait_crowd_a_run_that_has_no_queue(shared: Machine) -> None:
    one, two = shared.run("one"), shared.run("two")
    ask(one, 1, 2)
    assert not one.is_crowded
    ask(two, 1)
    assert one.is_crowded
    two.withdraw(1)
    cpus(two)
    assert not one.is_crowded


def test_a_run_that_waits_is_woken(shared: Machine) -> None:
    one, two = shared.run("one"), shared.run("two")
    ask(one, 1, 2)
    ask(two, 1)
    one.release(1)
    cpus(one)
    until("a ring", lambda: "two" in shared.rings)
    assert cpus(two) == [0]


def test_an_invocation_that_takes_very_long_shares_its_cpu_in_the_end(shared: Machine) -> None:
    one, two = shared.run("one"), shared.run("two")
    ask(one, 1, 2)
    ask(two, 1, 2)
    shared.clock.advance(31.0)
    assert cpus(two) == [0, 1], "the leases are over"
    one.release(1)
    assert ask(one, 3) == []
    two.release(1)
    assert cpus(two) == []
    assert cpus(one) == [0]
    one.release(2)
    assert cpus(one) == []


def test_no_more_slots_than_a_run_may_have(shared: Machine) -> None:
    one = shared.run("one", most=1)
    assert ask(one, 1, 2) == [0]


def test_runs_on_other_cpus_do_not_wait_for_one_another(shared: Machine) -> None:
    one, two = shared.run("one"), shared.run("two", slots=CPUS[:1])
    assert ask(one, 1, 2) == [0, 1]
    assert ask(two, 1) == [0]
    assert not one.is_crowded


def test_without_a_pool_a_run_has_slots_of_its_own(
    tmp_path: Path,
    shared: Machine,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path / "file"))
    one = shared.run("one", most=1)
    assert isinstance(shared.sources[0], OwnSlots)
    assert ask(one, 1, 2) == [0]
    assert "are not shared with other runs" in caplog.text


@pytest.mark.parametrize("at", ["ask_for_lease", "renew_or_queue", "close", "granted", "withdraw"])
def test_a_pool_that_fails_costs_no_slot_and_gives_none_twice(
    shared: Machine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    at: str,
) -> None:
    one, two = shared.run("one"), shared.run("two")
    ask(one, 1, 2, 3)
    ask(two, *() if at == "close" else (1, 2))

    def fail(*_: object, **__: object) -> None:
        raise ArtosError("the pool is gone")

    lease = leased_slots.Lease
    owner = {"granted": Pool, "renew_or_queue": lease, "close": lease}
    with monkeypatch.context() as patched:
        patched.setattr(owner.get(at, leased_slots.Seat), at, fail)
        held = {1: Slot(0), 2: Slot(1)}
        for turn in range(12):
            shared.clock.advance(1.0)
            done = 1 + turn % 3
            one.release(done)
            held.pop(done, None)
            if turn % 6 > 2:
                one.withdraw(1 + (turn + 1) % 3)
                one.withdraw(1 + (turn + 2) % 3)
            else:
                one.request(done)
            for holder, slot in one.granted():
                assert slot not in held.values(), "given twice"
                held[holder] = slot
    assert "the pool is gone" in caplog.text
    for holder in range(9):
        one.request(holder)
    one.granted()
    assert {one.of(holder) for holder in range(9)} == {None, *CPUS}, "a slot was lost"


def test_a_run_of_twice_the_weight_has_twice_the_time(shared: Machine) -> None:
    runs = {name: shared.run(name, weight=weight) for name, weight in (("a", 2.0), ("b", 1.0))}
    held: dict[tuple[str, int], Slot] = {}
    for _ in range(2000):  # it may be ahead of its due by a second
        for table in runs.values():
            for holder in range(4):
                table.request(holder)
        _settle(runs, held)
        shared.clock.advance(TURN)
        for name, holder in [*held]:
            runs[name].release(holder)
        held.clear()
    had = {name: table.held_seconds for name, table in runs.items()}
    assert had["a"] / had["b"] == pytest.approx(2.0, rel=0.05)


def test_three_runs_share_one_slot_by_weight(shared: Machine) -> None:
    slot, weights = CPUS[:1], {"a": 4.0, "b": 2.0, "c": 1.0}
    runs = {name: shared.run(name, slots=slot, weight=weights[name]) for name in weights}
    held: dict[tuple[str, int], Slot] = {}
    for _ in range(2000):
        for table in runs.values():
            for actor in range(2):
                table.request(actor)
        _settle(runs, held)
        assert len(held) == 1
        shared.clock.advance(TURN)
        for name, actor in held:
            runs[name].release(actor)
        held.clear()
    had = {name: table.held_seconds for name, table in runs.items()}
    assert sum(had.values()) == pytest.approx(2000 * TURN), "the slot has no second holder"
    for name, weight in weights.items():
        assert had[name] / sum(had.values()) == pytest.approx(weight / 7, rel=0.08)


def test_no_actor_waits_longer_than_the_bound(shared: Machine) -> None:
    """One slot, five runs of two actors that want it always, all urgent but the last."""
    longest, slot = 2.0, CPUS[:1]
    runs = {n: shared.run(f"r{n}", slots=slot, priority=4 - n) for n in range(5)}
    since: dict[tuple[int, int], float] = {}
    ahead: dict[tuple[int, int], int] = {}
    waits: dict[int, list[float]] = {n: [] for n in runs}
    held: dict[tuple[int, int], Slot] = {}
    while shared.clock.now() < 900.0:
        for n, table in runs.items():
            for actor in {0, 1} - {actor for run, actor in since if run == n}:
                since[n, actor], ahead[n, actor] = shared.clock.now(), len(table.waiting)
                table.request(actor)
        before = {*held}
        _settle(runs, held)
        for n, actor in held.keys() - before:
            waited = shared.clock.now() - since[n, actor]
            assert waited <= longest_wait(longest, len(runs), ahead[n, actor]), (n, actor)
            waits[n].append(waited)
        ((n, actor),) = held
        shared.clock.advance(longest)
        del held[n, actor], since[n, actor]
        runs[n].release(actor)
    assert max(waits[4]) > PATIENCE, "or nothing but the rule for those that are overdue is tested"
    assert all(len(found) > 5 for found in waits.values())


def test_the_bound_of_a_wait_is_what_the_page_says() -> None:
    assert longest_wait(2.0, 5) == pytest.approx(60 + 4 * 2.03 * 5)
    assert longest_wait(3600.0, 5) == 60 + 4 * 30 * 5, "no invocation keeps others out for longer"
    assert longest_wait(2.0, 5, ahead=1) == pytest.approx(2 * longest_wait(2.0, 5))


def test_a_pool_with_too_few_seats_gives_those_it_has(
    shared: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = shared.run("one", most=1)
    enter, entered = Pool.enter, []

    def almost_full(self: Pool, *arguments: Any, **more: Any) -> Any:
        if entered:
            raise PoolFull("seats", 2)
        entered.append("one")
        return enter(self, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "enter", almost_full)
        two = shared.run("two")
    assert ask(two, 1, 2) == [0]
    assert ask(one, 1) == [1], "and shares the others"


@pytest.mark.parametrize("seed", range(12))
def test_no_cpu_has_two_actors_whatever_the_runs_do(shared: Machine, seed: int) -> None:
    runs = {name: shared.run(name) for name in ("one", "two", "three")}
    _random_life(random.Random(seed), shared, runs)


def _random_life(chance: random.Random, machine: Machine, runs: dict[str, SlotTable[int]]) -> None:
    held: dict[tuple[str, int], Slot] = {}
    for _ in range(60):
        name, holder = chance.choice([*runs]), chance.randrange(4)
        what = chance.choice(["request", "release", "withdraw", "wait"])
        if what == "wait":
            machine.clock.advance(chance.choice([0.001, TURN, 1.0]))
        else:
            getattr(runs[name], what)(holder)
        if what == "release":
            held.pop((name, holder), None)
        _settle(runs, held)
    for _ in range(30):  # everybody's turn comes
        machine.clock.advance(TURN)
        for name, holder in [*held]:
            runs[name].release(holder)
            del held[name, holder]
        _settle(runs, held)
    assert all(table.waiting == () for table in runs.values()), "somebody is forgotten"
    (source, *_) = machine.sources
    assert isinstance(source, LeasedSlots)
    billed = sum(table.held_seconds for table in runs.values())
    assert billed == pytest.approx(sum(each.held_seconds for each in source._pool.usage()))


def _settle(runs: dict[Name, SlotTable[int]], held: dict[tuple[Name, int], Slot]) -> None:
    """Have every run see what it got: what one leaves goes to those that have looked before."""
    for _ in runs:
        for name, table in runs.items():
            for holder, slot in table.granted():
                assert slot not in held.values(), "two on one CPU"
                held[name, holder] = slot
