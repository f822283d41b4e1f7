"""Which queued run begins next: priorities, shares, the bound on waits, restarts of the head."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest
from worlds import World

from artos.clock import ManualClock
from artos.protocol.run_state import QUEUED
from head.daemon.run import Run
from head.daemon.run_queue import PATIENCE, RunQueue, longest_wait
from head.daemon.scheduler import Scheduler


def queued(
    world: World, name: str, workload: str = "", weight: float = 1.0, priority: int = 0,
    user: str = "",
) -> Run:  # fmt: skip
    settings = {"weight": str(weight), "priority": str(priority)}
    request = {"workload": workload or name, "settings": settings}
    run = Run(name, request, f"runs/{name}", user=user)
    world.scheduler.submit(run)
    world.turn()
    return run


def order(world: World, seconds: float = 10.0) -> list[str]:
    """Who begins after whom, if each run takes so long."""
    begun = []
    while world.processes:
        (name,) = world.processes
        begun.append(name)
        world.clock.advance(seconds)
        world.roster.heard({node.peer: 0.0 for node in world.roster})
        world.ended(name, 0)
    return begun


@pytest.fixture
def busy(world: World) -> World:
    """One slot, and a run that has it."""
    world.join("w1", slots=1)
    queued(world, "first")
    return world


def test_a_higher_priority_begins_first(busy: World) -> None:
    queued(busy, "low")
    queued(busy, "high", priority=2)
    queued(busy, "middle", priority=1)
    assert order(busy) == ["first", "high", "middle", "low"]


def test_who_waits_longest_begins_first_among_equals(busy: World) -> None:
    for name in ("zoe", "max", "ann"):
        queued(busy, name)
    assert order(busy) == ["first", "zoe", "max", "ann"]


def test_a_workload_of_many_runs_has_the_share_of_one(busy: World) -> None:
    for n in range(4):
        queued(busy, f"many{n}", "many")
    queued(busy, "one0", "one")
    queued(busy, "one1", "one")
    assert order(busy) == ["first", "many0", "one0", "many1", "one1", "many2", "many3"]


def test_users_of_the_same_workload_take_turns_by_weights_of_their_own(busy: World) -> None:
    for n in range(3):
        queued(busy, f"ann{n}", "ppo", user="ann")
    queued(busy, "ben0", "ppo", user="ben", weight=2.0)
    assert busy.scheduler.waits.of(busy.scheduler.runs["ann2"]).endswith("2 of its workload")
    weights = {each.workload: each.weight for each in busy.saved().queue.accounts}
    assert weights == {"first": 1.0, "ann/ppo": 1.0, "ben/ppo": 2.0}
    assert order(busy) == ["first", "ben0", "ann0", "ann1", "ann2"]


def test_shares_follow_weights(busy: World) -> None:
    for n in range(8):
        queued(busy, f"a{n}", "a", weight=3.0)
        queued(busy, f"b{n}", "b", weight=1.0)
    begun = [name[0] for name in order(busy)[1:9]]
    assert Counter(begun) == {"a": 6, "b": 2}


def test_the_slots_of_its_actors_are_charged(world: World) -> None:
    """So a workload that had both slots for a while comes after one that had one."""
    world.join("w1", slots=4)
    queued(world, "wide", "wide")
    world.up("wide")  # 4 actors: all slots
    world.clock.advance(10)
    world.ended("wide", 0)
    world.actors = 1
    queued(world, "narrow", "narrow")
    world.up("narrow")
    world.clock.advance(10)
    world.ended("narrow", 0)
    held = {each.workload: each.seconds for each in world.saved().queue.accounts}
    assert held == pytest.approx({"wide": 40.0, "narrow": 10.0})


def test_runs_that_share_a_node_are_charged_by_weight(world: World) -> None:
    world.join("w1", slots=6)
    world.actors = 9
    for name, weight in (("light", 1.0), ("heavy", 2.0)):
        queued(world, name, weight=weight)
    world.up("light")
    world.up("heavy")
    units = {each.workload: each.units for each in world.saved().queue.accounts}
    assert units == {"light": 2, "heavy": 4}


def test_a_node_takes_as_many_runs_as_its_worker_says(world: World) -> None:
    node = world.join("w1", slots=2, runs_per_slot=2)
    assert node.most_runs == 4
    for n in range(5):
        queued(world, f"r{n}")
        if n < 4:
            world.up(f"r{n}")
    assert [*world.processes] == ["r0", "r1", "r2", "r3"]
    assert {assign.slots for assign in world.executors["w1"].values()} == {2}, "they take turns"
    assert world.scheduler.waits.of(world.scheduler.runs["r4"]) == "a slot: 4 runs share 2"
    units = {each.workload: each.units for each in world.saved().queue.accounts}
    assert units == {"r0": 1, "r1": 1, "r2": 1, "r3": 1, "r4": 0}, "each counts for one at least"
    world.ended("r2", 0)
    assert [*world.processes] == ["r0", "r1", "r3", "r4"]


@pytest.mark.parametrize("wrong", ["much", "-1", "nan", "inf", None, [1]])
def test_what_cannot_be_a_weight_or_a_priority_counts_as_none(wrong: object) -> None:
    """Registration refuses it with words; the head must live until then."""
    run = Run("r", {"settings": {"weight": wrong, "priority": wrong}}, "")
    assert run.weight == 1.0
    assert run.priority in (0, -1)


def test_nothing_is_ended_for_a_higher_priority(busy: World) -> None:
    queued(busy, "urgent", priority=100)
    assert [*busy.processes] == ["first"]
    assert busy.scheduler.runs["first"].state == "starting"


def test_a_run_that_was_killed_keeps_its_place(busy: World) -> None:
    busy.up("first")
    queued(busy, "second", priority=5)
    busy.ended("first", -9)
    assert busy.began[-1] == ("first", 2, True)
    assert [*busy.processes] == ["first"]


def test_what_a_run_waits_for_is_said(busy: World) -> None:
    queued(busy, "ppo1", "ppo")
    queued(busy, "ppo2", "ppo")
    queued(busy, "urgent", priority=1)
    busy.clock.advance(5)
    queued(busy, "late")
    words = {r.name: busy.scheduler.waits.of(r) for r in busy.scheduler.runs.values()}
    assert words["ppo1"] == "a slot: 1 runs share 1; before it: 1 of higher priority"
    assert words["ppo2"].endswith("before it: 1 of higher priority, 1 of its workload")
    assert words["urgent"] == "a slot: 1 runs share 1"


def test_a_head_that_was_killed_goes_on_where_it_stopped(busy: World) -> None:
    """Accounts, times of arrival and turns are saved; so is who has begun."""
    for n in range(3):
        queued(busy, f"a{n}", "a", weight=2.0)
        queued(busy, f"b{n}", "b")
    queued(busy, "c", priority=1)
    busy.up("first")
    busy.clock.advance(7)
    busy.ended("first", 0)
    state = busy.saved()
    again = World(
        busy.clock, Scheduler(state.runs, state.queue, busy.clock.now()),
        executors=busy.executors, processes=dict(busy.processes),
    )  # fmt: skip
    again.join("w1", slots=1)
    clock = busy.clock.now()
    expected = order(busy)
    again.clock = ManualClock(clock)
    assert order(again) == expected
    assert len(expected) == 7


def test_a_machine_that_was_started_anew_has_an_earlier_clock(world: World) -> None:
    run = Run("r1", {"workload": "w"}, "", waits_since=1e6)
    world.scheduler = Scheduler([run], now=world.clock.now())
    world.join("w1")
    assert [*world.processes] == ["r1"]


def test_another_machine_has_another_clock(busy: World) -> None:
    """Who held slots there is not charged for what lies between clocks, and nobody has waited."""
    queued(busy, "waits")
    busy.up("first")
    busy.clock.advance(7)
    saved = msgspec.structs.replace(busy.saved(), boot="here")
    (held,) = (each for each in saved.queue.accounts if each.units)
    for boot, seconds in (("here", 1e6), ("elsewhere", 0)):
        later = busy.clock.now() + 1e6
        state = saved.on(boot)
        again = Scheduler(state.runs, state.queue, later)
        account = again._queue._queue.accounts[held.workload]
        assert account.seconds - held.seconds == pytest.approx(seconds, abs=10.0)
    assert all(not run.waits_since for run in state.runs)


def test_accounts_of_forgotten_workloads_are_dropped(world: World) -> None:
    world.join("w1")
    for n in range(300):
        queued(world, f"r{n}")
        world.ended(f"r{n}", 0)
    assert len(world.saved().queue.accounts) <= 201


# -- the bound -------------------------------------------------------------------------------------


@dataclass
class Waiter:
    """A run as the queue sees it."""

    name: str
    charged_to: str
    weight: float
    priority: int
    state: str = QUEUED
    admitted: bool = False
    waits_since: float = 0.0
    over: bool = False
    sought: None = None
    came: float = 0.0
    ahead: int = 0


@dataclass
class Crowd:
    """Runs that come, begin where there is room, and end, on a simulated clock."""

    slots: int
    random: Random
    now: float = 1.0
    count: int = 0
    runs: dict[str, Waiter] = field(default_factory=dict)
    waited: dict[str, tuple[Waiter, float]] = field(default_factory=dict)
    queue: RunQueue = field(default_factory=RunQueue)

    def __post_init__(self) -> None:
        self.ends: list[tuple[float, str]] = []
        self.waiting: Counter[tuple[str, int]] = Counter()

    def come(self, workload: str, weight: float, priority: int) -> None:
        self.count += 1
        kind = (workload, priority)
        run = Waiter(f"{workload}.{self.count}", workload, weight, priority)
        run.came, run.ahead = self.now, self.waiting[kind]
        self.waiting[kind] += 1
        self.runs[run.name] = run
        self.turn(run)

    def end(self) -> Waiter:
        """The next one ends."""
        self.now, name = heapq.heappop(self.ends)
        run = self.runs.pop(name)
        run.over = True
        self.turn(run)
        return run

    def turn(self, changed: Waiter) -> None:
        self.queue.see([changed], [], self.now)
        for name in self.queue.next(self.slots - len(self.ends)):
            run = self.runs[name]
            self.waiting[run.charged_to, run.priority] -= 1
            self.waited[name] = run, self.now - run.came
            seconds = self.random.uniform(0.2, 1.0) * LONGEST_RUN
            heapq.heappush(self.ends, (self.now + seconds, name))


LONGEST_RUN = 60.0
URGENT, HUMBLE = 6, 6


def test_no_run_starves_among_ten_thousand_that_come_at_random() -> None:
    """Urgent runs alone would fill the cluster for ever: for each that ends another one comes."""
    random = Random(3)
    crowd = Crowd(4, random)
    urgent = [(f"urgent{n}", random.uniform(0.5, 4), random.randint(1, 5)) for n in range(URGENT)]
    humble = [(f"humble{n}", random.uniform(0.1, 1), 0) for n in range(HUMBLE)]
    for kind in urgent:
        crowd.come(*kind)
    while crowd.count < 10_000:
        ended = crowd.end()
        if ended.priority:
            crowd.come(ended.charged_to, ended.weight, ended.priority)
        if random.random() < 0.1:
            crowd.come(*random.choice(humble))
    waits = crowd.waited | {
        run.name: (run, crowd.now - run.came) for run in crowd.runs.values() if not run.admitted
    }
    queues = URGENT + HUMBLE
    late = {n for n, (r, s) in waits.items() if s > longest_wait(LONGEST_RUN, queues, r.ahead)}
    assert late == set()
    patient = [seconds for run, seconds in crowd.waited.values() if not run.priority]
    assert len(patient) > 500
    assert max(patient) > PATIENCE, "or nothing but the rule for those that are overdue is tested"
