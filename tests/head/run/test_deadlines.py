"""How long members may take: counted from when each could begin, also after a restart or a wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER, acting
from test_ahead import publish, sample

from artos.protocol.invocations import Done, Ready, Waits
from artos.specs.actor_count import Manual
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.concerns.recovery import Recovery

(ACTOR,) = acting(0)


@pytest.fixture
def players(tmp_path: Path) -> Iterator[Troupe]:
    """One actor that has been told to sample its first round."""
    with troupe(Manual(1, 1), full_batch(), 100, tmp_path) as made:
        made.begin()
        made.said.clear()
        yield made


def later(players: Troupe, share: float) -> None:
    """This share of the time to answer passes; the time to start is as long."""
    assert (
        players.coordinator.concern(Recovery).limits.start
        == players.coordinator.concern(Recovery).limits.answer
    )
    players.clock.advance(share * players.coordinator.concern(Recovery).limits.answer)
    players.coordinator.tick()


def restarts(players: Troupe, actor: int | Member = 0) -> int:
    return players.said.count(("start", actor))


def test_who_was_restarted_has_its_full_time_once_it_is_ready(players: Troupe) -> None:
    later(players, 0.9)
    players.kill(0)
    later(players, 0.9)
    assert restarts(players) == 1, "that long it may take to start"
    players.wake(0)
    later(players, 0.9)
    assert restarts(players) == 1, "and that long to answer"
    later(players, 0.2)
    assert restarts(players) == 2


def test_who_hangs_again_is_restarted_again(players: Troupe) -> None:
    for count in (1, 2):
        later(players, 1.1)
        players.clock.advance(1.0)  # the pause before a second restart
        players.coordinator.tick()
        assert restarts(players) == count
        players.wake(0)
    players.run(updates=3)
    assert set(players.unused().values()) == {0}


def test_the_time_to_start_begins_when_those_asked_for_earlier_are_ready(players: Troupe) -> None:
    """As a node sets up few actors at once, the last of a thousand begin late."""
    roster, members = players.coordinator.roster, acting(5, 6, 7)
    first, second, third = members
    for member in members:
        roster.started(member)
        players.clock.advance(0.001)
    players.clock.advance(90.0)
    roster.ready(second)
    players.clock.advance(20.0)
    assert [*roster.late(100.0)] == [first], "it holds nobody's place up but its own"
    players.clock.advance(90.0)
    assert [*roster.late(100.0)] == [first, third]


def test_who_is_ready_and_comes_back_is_not_late(players: Troupe) -> None:
    """An actor that took no part for a while says nothing when it takes part again."""
    roster, (member,) = players.coordinator.roster, acting(5)
    roster.started(member)
    roster.ready(member)
    players.clock.advance(50.0)
    roster.started(member, 1.0)
    players.clock.advance(500.0)
    assert [*roster.late(100.0)] == []
    roster.lost(member)
    roster.started(member)
    players.clock.advance(101.0)
    assert [*roster.late(100.0)] == [member]


def test_who_was_held_back_has_its_full_time_afterwards(players: Troupe) -> None:
    assert players.coordinator.waits()["actor 0"].startswith("running sample")
    players.without_slot = {ACTOR}
    assert players.coordinator.waits() == {"learner": "rows", "actor 0": "a slot or its process"}
    for _ in range(3):
        later(players, 1.1)
    players.without_slot = set()
    later(players, 0.9)
    assert restarts(players) == 0
    later(players, 0.2)
    assert restarts(players) == 1


def test_a_wait_shorter_than_the_limit_does_not_count_either(players: Troupe) -> None:
    """As on a node whose slots many runs share: an actor waits often, and never for long."""
    for _ in range(3):
        players.without_slot = {ACTOR}
        for _ in range(9):
            later(players, 0.1)
        later(players, 0.02)  # the last of it between two looks at who waits
        players.without_slot = set()
        for _ in range(9):
            later(players, 0.1)
        later(players, 0.09)
        assert restarts(players) == 0
        for _ in ("a round", "an update"):
            players.step()
    for _ in range(12):
        later(players, 0.1)
    assert restarts(players) == 1, "who hangs with its slot is restarted as before"


def test_a_learner_that_waited_for_its_device_has_its_full_time_afterwards(
    players: Troupe,
) -> None:
    coordinator = players.coordinator
    call = players._queues[ACTOR].popleft()
    sample(players, 0, call.stop, 0)
    coordinator.receive(ACTOR, Done(call.firing, 0))
    assert coordinator.waits()["learner"].startswith("running update")
    coordinator.receive(LEARNER, Waits("a device"))
    assert coordinator.waits()["learner"] == "a device"
    for _ in range(3):
        later(players, 1.1)
    later(players, 0.9)
    coordinator.receive(LEARNER, Waits(""))
    assert coordinator.waits()["learner"].startswith("running update")
    later(players, 0.9)
    assert restarts(players, LEARNER) == 0
    later(players, 0.2)
    assert restarts(players, LEARNER) == 1


def test_a_run_that_stops_does_not_wait_for_a_device(players: Troupe) -> None:
    coordinator = players.coordinator
    call = players._queues[ACTOR].popleft()
    sample(players, 0, call.stop, 0)
    coordinator.receive(ACTOR, Done(call.firing, 0))
    coordinator.receive(LEARNER, Waits("a device"))
    assert not coordinator.finished
    coordinator.ending.drain()
    assert coordinator.finished
    coordinator.receive(LEARNER, Waits(""))
    assert not coordinator.finished, "what was begun is finished"


def test_what_a_learner_waited_for_died_with_it(players: Troupe) -> None:
    coordinator = players.coordinator
    coordinator.receive(LEARNER, Waits("a device"))
    coordinator.receive(ACTOR, Waits("a device"))
    assert not coordinator.waits()["actor 0"].endswith("a device"), "only learners wait for one"
    coordinator.died(LEARNER, ExitReport("killed"))
    players.wake(LEARNER)
    call = players._queues[ACTOR].popleft()
    sample(players, 0, call.stop, 0)
    coordinator.receive(ACTOR, Done(call.firing, 0))
    assert coordinator.waits()["learner"].startswith("running update")


def test_who_waited_for_room_has_its_full_time_afterwards(tmp_path: Path) -> None:
    """The learner is slow and holds all rows: that is no fault of the actor."""
    with troupe(Manual(1, 1), full_batch(max_lag=9), 100, tmp_path, capacity=2 * STEPS) as players:
        coordinator = players.coordinator
        coordinator.begin()
        for member in (LEARNER, ACTOR):
            coordinator.receive(member, Ready(0.0))
        publish(players, 0, 0)
        coordinator.look(LEARNER)
        block, rounds = coordinator.ports.blocks[0], players._queues[ACTOR]
        while block.free() >= STEPS and rounds:
            call = rounds.popleft()
            sample(players, 0, call.stop, 0)
            coordinator.receive(ACTOR, Done(call.firing, 0))
        assert block.free() == 0
        assert rounds, "it was told to sample more than there is room for"
        players.without_slot = {LEARNER}
        for _ in range(3):
            later(players, 1.1)
        first = players._queues[LEARNER].popleft()
        coordinator.receive(LEARNER, Done(first.firing, 0))
        assert block.free() == STEPS
        later(players, 0.9)
        assert restarts(players) == 0
        later(players, 0.2)
        assert restarts(players) == 1


def test_a_slow_start_is_not_forgiven_twice(players: Troupe) -> None:
    players.kill(0)
    for count in (2, 3):
        later(players, 1.1)
        players.clock.advance(1.0)
        players.coordinator.tick()
        assert restarts(players) == count
    players.wake(0)
    players.run(updates=2)
