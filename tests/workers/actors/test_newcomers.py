"""Actors made before they are wanted: in order, a few at a time, as slowly as time allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_fixture import FOUR, THREE, TWO, Host
from named import acting

from artos.clock import ManualClock
from artos.protocol.invocations import Ready
from artos.specs.members import Member
from workers.actors.actor_record import State
from workers.actors.newcomers import Newcomers
from workers.host import priority

USUAL = 0


class Stage:
    """Newcomers with made-up processes: ``niceness``, and ``used`` CPU seconds, by actor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at_once: int = 2) -> None:
        self.clock, self.spawned = ManualClock(), list[int]()
        self.niceness: dict[int, int] = {}
        self.used: dict[int, float] = {}
        monkeypatch.setattr(priority, "rivals", lambda: 1.0)
        monkeypatch.setattr(priority, "lower", self.niceness.__setitem__)
        monkeypatch.setattr(priority, "usual", lambda pid: self.niceness.update({pid: USUAL}))
        self.newcomers = Newcomers(at_once, self._spawn, self, self.clock)  # type: ignore[arg-type]

    def _spawn(self, member: Member) -> None:
        self.spawned.append(member.rank)

    def used_seconds(self, actor: int) -> float:
        return self.used.get(actor, 0.0)

    def expect(self, seconds: float, *actors: int) -> None:
        for member in acting(*actors):
            self.newcomers.expect(member, seconds)

    def make(self, actor: int, cost: float) -> None:
        """Its process begins, uses so much, and is ready."""
        self.newcomers.spawned(*acting(actor), actor)
        self.used[actor] = cost
        self.newcomers.ready(*acting(actor))


def test_they_are_made_in_order_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.expect(60.0, 3, 4, 5, 6)
    assert stage.spawned == [3, 4]
    stage.expect(50.0, 3, 4, 5, 6)
    assert stage.spawned == [3, 4]
    stage.make(4, 1.0)
    assert stage.spawned == [3, 4, 5]
    stage.newcomers.ready(*acting(4))  # once more, as a process that was started anew would
    assert stage.spawned == [3, 4, 5]
    stage.make(3, 1.0)
    stage.make(5, 1.0)
    stage.make(6, 1.0)
    assert stage.spawned == [3, 4, 5, 6]
    assert stage.niceness == dict.fromkeys((3, 4, 5, 6), USUAL)


def test_they_are_given_what_they_need_of_the_cpus_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch)
    stage.expect(100.0, 1, 2, 3, 4)
    stage.make(1, 2.0)
    stage.make(2, 2.0)
    assert stage.newcomers.share == pytest.approx(2 * 2.0 / 2 / 85.0)
    stage.newcomers.spawned(*acting(3), 3)
    slow = stage.niceness[3]
    assert slow == priority.niceness_for(2 / 85) > 10
    stage.clock.advance(90.0)
    stage.newcomers.tick()
    assert USUAL < stage.niceness[3] < slow, "time is short"
    stage.used[3] = 1.8
    stage.expect(100.0, 3, 4)
    assert stage.newcomers.share == pytest.approx((0.2 + 2.0) / 2 / 85.0)


def test_who_is_late_is_made_as_fast_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.expect(1.0, 1)
    stage.newcomers.spawned(*acting(1), 1)
    stage.clock.advance(2.0)
    stage.newcomers.tick()
    assert stage.newcomers.share == 1.0
    assert stage.niceness[1] == USUAL


def test_who_leaves_is_hurried_and_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, at_once=1)
    stage.expect(60.0, 1, 2, 3)
    stage.newcomers.spawned(*acting(1), 1)
    assert stage.niceness[1] > 10
    stage.newcomers.leave(*acting(2))
    stage.newcomers.leave(*acting(1))
    assert stage.niceness[1] == USUAL
    stage.newcomers.tick()
    assert stage.spawned == [1, 3]


# -- what the process manager does with them -------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    there = Host(tmp_path, 4, 1, "auto")
    there.said = []  # type: ignore[attr-defined]
    monkeypatch.setattr(priority, "lower", lambda pid, by: there.said.append("lower"))  # type: ignore[attr-defined]
    monkeypatch.setattr(priority, "usual", lambda pid: there.said.append("usual"))  # type: ignore[attr-defined]
    yield there
    there.manager.stop(0.0)


def test_actors_with_time_are_made_one_after_the_other_at_a_low_priority(host: Any) -> None:
    for member in (TWO, THREE):
        host.manager.prepare(member, 60.0)
    assert [host.state(m) for m in (TWO, THREE)] == [State.STARTING, State.COLD]
    assert host.said == ["lower"]
    host.say(TWO, Ready(0.0))
    assert [host.state(m) for m in (TWO, THREE)] == [State.PARKED, State.STARTING]
    assert host.said == ["lower", "usual", "lower"]


def test_who_is_asked_for_something_is_not_made_slowly_any_more(host: Any) -> None:
    for member in (TWO, THREE):
        host.manager.prepare(member, 60.0)
    host.ask(TWO)
    assert host.said == ["lower", "usual"]
    host.say(TWO, Ready(0.0))
    assert host.served == [TWO]
    host.answer(TWO)
    host.ask(THREE)
    assert (host.state(THREE), host.said) == (State.STARTING, ["lower", "usual"])
    host.manager.prepare(THREE, 60.0)
    host.manager.tick()
    assert host.said == ["lower", "usual"], "nothing is slowed down that somebody waits for"


def test_a_newcomer_that_dies_makes_room_and_is_not_slow_again(host: Any) -> None:
    for member in (TWO, THREE):
        host.manager.prepare(member, 60.0)
    host.strategy.children[TWO].status = 1
    assert [member for member, _ in host.manager.deaths()] == [TWO]
    host.manager.end(TWO)
    host.manager.start(TWO)
    host.manager.tick()
    assert [host.state(m) for m in (TWO, THREE)] == [State.STARTING, State.STARTING]
    assert host.said.count("lower") == 1 + 2, "the first, and the third when made and at the tick"


def test_who_is_not_wanted_any_more_is_not_made(host: Any) -> None:
    for member in (TWO, THREE, FOUR):
        host.manager.prepare(member, 60.0)
    host.manager.retire(THREE)
    host.say(TWO, Ready(0.0))
    assert [host.state(m) for m in (TWO, THREE, FOUR)] == [State.PARKED, State.COLD, State.STARTING]


def test_who_has_no_time_any_more_is_made_at_once(host: Any) -> None:
    for member in (TWO, THREE):
        host.manager.prepare(member, 60.0)
    for member in (TWO, THREE):
        host.manager.prepare(member)
    assert [host.state(m) for m in (TWO, THREE)] == [State.STARTING, State.STARTING]
    assert host.said == ["lower", "usual"]


def test_without_time_they_are_made_at_once(host: Any) -> None:
    for member in (TWO, THREE):
        host.manager.prepare(member)
    assert [host.state(m) for m in (TWO, THREE)] == [State.STARTING, State.STARTING]
    assert host.said == []
