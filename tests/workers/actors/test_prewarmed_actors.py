"""Actors that are restored before their invocation comes, and what an answer says of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_fixture import ONE, TWO, Host, Restored
from named import acting

from artos.protocol.invocations import Done
from artos.specs.members import Member
from workers.actors.actor_record import ActorRecord, State


@pytest.fixture
def host(tmp_path: Path) -> Any:
    hosts = []

    def build(actors: int = 1) -> Host:
        hosts.append(Host(tmp_path, actors, 1, "checkpoint"))
        hosts[-1].up(*acting(*range(actors)))
        return hosts[-1]

    yield build
    for each in hosts:
        each.manager.stop(0.0)


def image_of(there: Host, member: Member) -> None:
    """The actor does a round, and then waits as an image."""
    there.ask(member)
    there.answer(member)
    there.checkpointer.dumps[-1].result = object()
    there.manager.step()
    assert there.state(member) is State.CHECKPOINTED


def back(there: Host, seconds: float) -> None:
    """The newest restore takes so long."""
    there.clock.advance(seconds)
    there.checkpointer.restores[-1].result = Restored()
    there.manager.step()


def costs_told(there: Host, member: Member) -> tuple[float, float]:
    """What the next answer says of waiting and restoring, in seconds."""
    (done,) = there.say(member, Done(0, 0))
    assert isinstance(done, Done)
    return done.waited, done.restored


def test_an_invocation_that_finds_an_image_waits_for_the_restore(host: Any) -> None:
    there = host()
    image_of(there, ONE)
    there.ask(ONE)
    assert not there.checkpointer.restores[0].gently
    back(there, 0.25)
    assert costs_told(there, ONE) == (0.25, 0.25)
    assert there.manager.usage().waits["process"] == 0.25
    assert there.manager.accounts.starts().keys() == {"clone", "restore"}


def test_one_that_was_prepared_does_not(host: Any) -> None:
    """It holds no slot meanwhile, and its restore takes little from those who work."""
    there = host()
    image_of(there, ONE)
    held = there.manager.usage().cpu_seconds_held
    there.manager.prepare(ONE)
    assert there.checkpointer.restores[0].gently
    back(there, 0.25)
    there.clock.advance(3.0)
    assert there.state(ONE) is State.PARKED
    assert there.manager.usage().cpu_seconds_held == held
    there.ask(ONE)
    assert there.state(ONE) is State.RUNNING
    assert costs_told(there, ONE) == (0.0, 0.25)
    assert there.manager.accounts.starts()["prewarm"].count == 1
    assert there.state(ONE) is State.DUMPING, "and then it is parked as before"


def test_a_cost_is_told_once(host: Any) -> None:
    there = host()
    image_of(there, ONE)
    there.ask(ONE, ONE)
    back(there, 0.25)
    assert costs_told(there, ONE) == (0.25, 0.25)
    assert costs_told(there, ONE) == (0.0, 0.0)


def test_an_invocation_that_comes_during_the_restore_hurries_it_and_waits_for_the_rest(
    host: Any,
) -> None:
    there = host()
    image_of(there, ONE)
    there.manager.prepare(ONE)
    there.clock.advance(0.25)
    assert not there.checkpointer.restores[0].hurried
    there.ask(ONE)
    assert there.checkpointer.restores[0].hurried
    back(there, 0.125)
    assert costs_told(there, ONE) == (0.125, 0.375)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_dump_takes_little_from_those_who_work_until_the_actor_is_wanted(
    host: Any, prepared: bool
) -> None:
    there = host()
    there.ask(ONE)
    there.answer(ONE)
    (dump,) = there.checkpointer.dumps
    assert (dump.gently, dump.hurried) == (True, False)
    (there.manager.prepare if prepared else there.ask)(ONE)
    assert dump.hurried


def test_waiting_for_a_slot_is_not_waiting_for_a_process(host: Any) -> None:
    there = host(2)
    image_of(there, ONE)
    there.ask(TWO, ONE)
    there.clock.advance(5.0)
    there.answer(TWO)
    back(there, 0.25)
    assert costs_told(there, ONE) == (0.25, 0.25)


def test_prepared_while_its_image_is_made_it_comes_back_once(host: Any) -> None:
    """But not a second time, e.g. when its next image is made to be moved."""
    there = host()
    there.ask(ONE)
    there.answer(ONE)
    there.manager.prepare(ONE)
    assert there.state(ONE) is State.DUMPING
    there.checkpointer.dumps[0].result = object()
    there.manager.step()
    assert there.state(ONE) is State.RESTORING
    back(there, 0.25)
    assert there.state(ONE) is State.PARKED
    assert there.manager.moves.image_of(ONE) is None
    there.checkpointer.dumps[1].result = object()
    there.manager.step()
    assert there.state(ONE) is State.CHECKPOINTED
    assert len(there.checkpointer.restores) == 1


def test_who_has_a_process_needs_none(host: Any) -> None:
    there = host(2)
    there.ask(TWO)
    there.manager.prepare(ONE)
    there.manager.prepare(TWO)
    assert (there.state(ONE), there.state(TWO)) == (State.PARKED, State.RUNNING)
    assert there.strategy.asked == []


@pytest.mark.parametrize("state", [State.PARKED, State.FROZEN])
def test_who_is_alive_is_not_waited_for_however_long_a_moment_takes(state: State) -> None:
    record = ActorRecord(ONE, state)
    record.serve(7.0)
    if state is State.FROZEN:
        record.thaw(0.0)
    record.run(7.5)
    assert record.with_costs(Done(0, 0)).waited == 0.0
