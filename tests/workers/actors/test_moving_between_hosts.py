"""Actors that leave a process manager as an image, or come to it as one; no real process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_fixture import ONE, Host, Restored

from artos.errors import CheckpointRefused, NoImage, RestoreFailed
from artos.protocol.invocations import Branch, Branched, Failed, Ready, Stop
from artos.runtime.held import HAND_OVER_SECONDS, Held
from artos.specs.elastic import Park
from artos.system.exit_report import START_SECONDS
from workers.actors.actor_record import State

Build = Callable[..., Host]
IMAGE: Any = "actor-0"


@pytest.fixture
def host(tmp_path: Path) -> Build:
    return lambda park="auto": Host(tmp_path, 1, 1, park)


# -- out -------------------------------------------------------------------------------------------


def dumped(there: Host, result: object = IMAGE) -> None:
    there.checkpointer.dumps[-1].result = result
    there.manager.step()


@pytest.mark.parametrize("park", ["auto", "never", "memory"])
def test_an_idle_actor_becomes_an_image_wherever_it_waits(host: Build, park: Park) -> None:
    there = host(park)
    there.up(ONE)
    there.ask(ONE)
    there.answer(ONE)
    assert there.manager.moves.image_of(ONE) is None
    assert there.state(ONE) is State.DUMPING
    assert there.manager.moves.image_of(ONE) is None
    assert len(there.checkpointer.dumps) == 1
    dumped(there)
    assert there.manager.moves.image_of(ONE) == IMAGE
    there.manager.end(ONE)
    assert there.checkpointer.dropped == [IMAGE]


def test_who_stays_after_all_comes_back_and_binds_first(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.moves.image_of(ONE)
    dumped(there)
    there.ask(ONE)
    assert there.manager.moves.image_of(ONE) is None
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert [call.bind for _, call in there.delivered] == [True]
    assert there.manager.accounts.starts()["restore"].count == 1


def test_who_is_at_work_or_not_there_has_no_image(host: Build) -> None:
    there = host()
    with pytest.raises(NoImage, match="actor 0: it is cold"):
        there.manager.moves.image_of(ONE)
    there.up(ONE)
    there.ask(ONE)
    with pytest.raises(NoImage, match="it is running"):
        there.manager.moves.image_of(ONE)


def test_what_holds_an_actor_back_is_said_and_tried_again_once_it_has_run(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.moves.image_of(ONE)
    dumped(there, CheckpointRefused(7, "an open TCP connection"))
    for _ in range(2):
        with pytest.raises(NoImage, match="an open TCP connection"):
            there.manager.moves.image_of(ONE)
    assert there.state(ONE) is State.PARKED
    there.ask(ONE)
    there.answer(ONE)
    assert there.manager.moves.image_of(ONE) is None
    assert there.state(ONE) is State.DUMPING


def test_what_held_one_process_back_is_not_said_of_the_next(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.moves.image_of(ONE)
    dumped(there, CheckpointRefused(7, "an open TCP connection"))
    there.manager.end(ONE)
    there.up(ONE)
    assert there.manager.moves.image_of(ONE) is None
    assert there.state(ONE) is State.DUMPING


@pytest.mark.parametrize("park", ["auto", "never", "memory"])
def test_an_idle_actor_hands_over_what_it_holds_wherever_it_waits(host: Build, park: Park) -> None:
    there = host(park)
    there.up(ONE)
    there.ask(ONE)
    there.answer(ONE)
    assert not there.manager.moves.hand_over(ONE)
    if there.state(ONE) is State.DUMPING:
        dumped(there)
        there.ask(ONE)  # or it would stay an image
        there.checkpointer.restores[0].result = Restored()
        there.manager.step()
        there.answer(ONE)
    while there.state(ONE) is not State.HANDING_OVER:
        assert not there.manager.moves.hand_over(ONE)
        for each in (*there.checkpointer.dumps, *there.checkpointer.restores):
            each.result = Restored()
        there.manager.step()
    assert there.delivered[-1] == (ONE, Stop(str(there.site.held_path(ONE))))
    assert not there.manager.moves.hand_over(ONE)


def told_to_end(there: Host) -> None:
    there.up(ONE)
    assert not there.manager.moves.hand_over(ONE)
    assert there.delivered == [(ONE, Stop(str(there.site.held_path(ONE))))]


@pytest.mark.parametrize("status", [0, 1])
def test_who_has_handed_over_has_not_died(host: Build, status: int) -> None:
    """Even if its environment could not be closed."""
    there = host("memory")
    told_to_end(there)
    Held(b"mid-episode").write(there.site.held_path(ONE))
    there.strategy.children[ONE].status = status
    assert there.manager.deaths() == []
    assert there.state(ONE) is State.COLD
    assert there.manager.moves.hand_over(ONE)
    assert there.recovered == [0]


@pytest.mark.parametrize("status", [0, -9])
def test_who_fails_at_it_has(host: Build, status: int) -> None:
    there = host("memory")
    told_to_end(there)
    there.strategy.children[ONE].status = status
    ((member, _),) = there.manager.deaths()
    assert member == ONE


def test_who_takes_too_long_over_it_is_killed(host: Build) -> None:
    """Its node alone waits for that: to the run it is idle."""
    there = host("memory")
    told_to_end(there)
    there.clock.advance(HAND_OVER_SECONDS)
    assert there.manager.deaths() == []
    there.clock.advance(0.1)
    ((member, _),) = there.manager.deaths()
    assert member == ONE


def test_who_goes_on_here_and_never_comes_is_killed(host: Build) -> None:
    there = host("memory")
    told_to_end(there)
    there.ask(ONE)
    Held(b"mid-episode").write(there.site.held_path(ONE))
    there.strategy.children[ONE].status = 0
    assert there.manager.deaths() == []
    there.manager.step()
    there.clock.advance(START_SECONDS + 0.1)
    ((member, _),) = there.manager.deaths()
    assert member == ONE


def test_who_cannot_take_up_what_it_held_may_begin_anew(host: Build) -> None:
    """The run has not been given anything that is wrong, as when it is resumed."""
    there = host()
    there.manager.moves.expect_image(ONE)
    there.manager.moves.give_up_image(ONE, came=True)
    there.manager.step()
    (told,) = there.say(ONE, Failed(0, 0, "no such file", fatal=True))
    assert told == Failed(0, 0, "no such file", fatal=False)


@pytest.mark.parametrize("held", [Held(b"mid-episode"), Held(why="cannot pickle 'lock' object")])
def test_who_stays_after_it_is_started_again(host: Build, held: Held) -> None:
    """Nobody is told if it goes on where it was, nor is anything given to a process that ends."""
    there = host("memory")
    told_to_end(there)
    there.ask(ONE)
    assert len(there.delivered) == 1
    held.write(there.site.held_path(ONE))
    there.strategy.children[ONE].status = 0
    assert there.manager.deaths() == []
    assert there.state(ONE) is State.STARTING
    there.manager.step()
    assert there.say(ONE, Ready(0.0)) == ([] if held.data else [Ready(0.0)])
    assert [member for member, _ in there.delivered[1:]] == [ONE]
    assert set(there.manager.accounts.starts()) == ({"clone", "state"} if held.data else {"clone"})


def test_who_is_at_work_hands_over_nothing(host: Build) -> None:
    there = host("memory")
    there.up(ONE)
    there.ask(ONE)
    with pytest.raises(NoImage, match="it is running"):
        there.manager.moves.hand_over(ONE)


@pytest.mark.parametrize("by_image", [True, False])
def test_whose_episode_is_being_branched_goes_once_that_is_ended(
    host: Build, tmp_path: Path, by_image: bool
) -> None:
    there = host()
    there.up(ONE)
    told: list[Any] = []
    order = Branch(str(tmp_path / "branch-1"), 2)
    there.manager.branches.ask(ONE, order, lambda data: told.append(json.loads(data)))
    leave = there.manager.moves.image_of if by_image else there.manager.moves.hand_over
    assert not leave(ONE)
    assert (there.state(ONE), told) == (State.PARKED, []), "it may just be about to fork"
    there.say(ONE, Branched("fork", 0, 64))
    assert not leave(ONE)
    assert there.state(ONE) is (State.DUMPING if by_image else State.HANDING_OVER)
    assert len(told[0]["children"]) == 2


# -- in --------------------------------------------------------------------------------------------


def test_who_comes_as_an_image_does_its_work_and_binds_first(host: Build) -> None:
    there = host()
    there.manager.moves.expect_image(ONE)
    there.ask(ONE)
    assert (there.state(ONE), there.served, there.strategy.asked) == (State.ARRIVING, [], [])
    there.clock.advance(2.0)
    there.manager.moves.take_in(ONE, IMAGE)
    assert there.state(ONE) is State.RESTORING
    assert there.manager.moves.arrivals() == []
    there.clock.advance(1.0)
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert there.manager.moves.arrivals() == [(ONE, 3.0, "")]
    assert there.manager.moves.arrivals() == []
    assert [call.bind for _, call in there.delivered] == [True]
    starts = there.manager.accounts.starts()
    assert (starts["moved"].count, starts["moved"].median_s) == (1, 3.0)
    assert "restore" not in starts


def test_whose_image_never_comes_begins_anew(host: Build) -> None:
    there = host()
    there.manager.moves.expect_image(ONE)
    there.ask(ONE)
    there.manager.moves.give_up_image(ONE)
    assert there.state(ONE) is State.STARTING
    there.manager.step()
    there.say(ONE, Ready(0.0))
    assert there.served == [ONE]
    there.answer(ONE)
    assert_is_at_home(there)


def test_whose_image_is_of_no_use_begins_anew_and_that_is_told(host: Build) -> None:
    there = host()
    there.manager.moves.expect_image(ONE)
    there.manager.moves.take_in(ONE, IMAGE)
    there.checkpointer.restores[0].result = RestoreFailed("actor-0", "no such file")
    there.manager.step()
    ((member, _, lost),) = there.manager.moves.arrivals()
    assert member == ONE
    assert "no such file" in lost
    assert there.state(ONE) is State.STARTING
    assert there.checkpointer.dropped == [IMAGE]
    assert "moved" not in there.manager.accounts.starts()


def test_who_is_put_away_meanwhile_is_not_made(host: Build) -> None:
    there = host()
    there.manager.moves.expect_image(ONE)
    there.manager.retire(ONE)
    there.manager.moves.give_up_image(ONE)
    assert there.state(ONE) is State.COLD
    assert there.strategy.asked == []


def test_who_is_ended_meanwhile_is_expected_no_more(host: Build) -> None:
    there = host()
    there.manager.moves.expect_image(ONE)
    there.manager.end(ONE)
    there.up(ONE)
    assert_is_at_home(there)


def test_who_came_by_what_it_held_is_counted_so(host: Build) -> None:
    there = host()
    there.manager.moves.expect_image(ONE)
    there.ask(ONE)
    there.manager.moves.give_up_image(ONE, came=True)
    there.manager.step()
    there.say(ONE, Ready(0.0))
    assert [*there.manager.accounts.starts()] == ["state"]
    assert [member for member, _ in there.delivered] == [ONE]


def assert_is_at_home(there: Host) -> None:
    """Its next image is one of here, and nobody is told that it arrived."""
    assert there.manager.moves.image_of(ONE) is None
    dumped(there)
    there.ask(ONE)
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert there.manager.moves.arrivals() == []
    assert there.manager.accounts.starts()["restore"].count == 1


# -- what came with it -----------------------------------------------------------------------------


def test_what_came_with_an_actor_is_looked_for_once_it_is_gone(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.tick()
    assert there.checkpointer.freed == []
    there.manager.end(ONE)
    there.manager.tick()
    there.manager.tick()
    assert there.checkpointer.freed == [[]]


def test_what_came_for_actors_that_do_not_come_is_looked_for(host: Build) -> None:
    there = host()
    there.checkpointer.may_free = True
    there.manager.tick()
    there.manager.tick()
    assert there.checkpointer.freed == [[]]


def test_nothing_is_freed_while_an_image_is_on_its_way(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.end(ONE)
    there.manager.moves.expect_image(ONE)
    there.manager.tick()
    assert there.checkpointer.freed == []
    there.manager.moves.take_in(ONE, IMAGE)
    there.manager.tick()
    assert there.checkpointer.freed == []
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    there.manager.tick()
    assert there.checkpointer.freed == [[os.getpid()]]
