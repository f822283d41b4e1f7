"""Actors that leave a process manager as an image, or come to it as one; no real process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_fixture import ONE, Host, Restored

from artos.errors import CheckpointRefused, NoImage, RestoreFailed
from artos.protocol.invocations import Ready
from artos.specs.elastic import Park
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
    assert there.manager.image_of(ONE) is None
    assert there.state(ONE) is State.DUMPING
    assert there.manager.image_of(ONE) is None
    assert len(there.checkpointer.dumps) == 1
    dumped(there)
    assert there.manager.image_of(ONE) == IMAGE
    there.manager.end(ONE)
    assert there.checkpointer.dropped == [IMAGE]


def test_who_stays_after_all_comes_back_and_binds_first(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.image_of(ONE)
    dumped(there)
    there.ask(ONE)
    assert there.manager.image_of(ONE) is None
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert [call.bind for _, call in there.delivered] == [True]
    assert there.manager.accounts.starts()["restore"].count == 1


def test_who_is_at_work_or_not_there_has_no_image(host: Build) -> None:
    there = host()
    with pytest.raises(NoImage, match="actor 0: it is cold"):
        there.manager.image_of(ONE)
    there.up(ONE)
    there.ask(ONE)
    with pytest.raises(NoImage, match="it is running"):
        there.manager.image_of(ONE)


def test_what_holds_an_actor_back_is_said_and_tried_again_once_it_has_run(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.image_of(ONE)
    dumped(there, CheckpointRefused(7, "an open TCP connection"))
    for _ in range(2):
        with pytest.raises(NoImage, match="an open TCP connection"):
            there.manager.image_of(ONE)
    assert there.state(ONE) is State.PARKED
    there.ask(ONE)
    there.answer(ONE)
    assert there.manager.image_of(ONE) is None
    assert there.state(ONE) is State.DUMPING


def test_what_held_one_process_back_is_not_said_of_the_next(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.image_of(ONE)
    dumped(there, CheckpointRefused(7, "an open TCP connection"))
    there.manager.end(ONE)
    there.up(ONE)
    assert there.manager.image_of(ONE) is None
    assert there.state(ONE) is State.DUMPING


# -- in --------------------------------------------------------------------------------------------


def test_who_comes_as_an_image_does_its_work_and_binds_first(host: Build) -> None:
    there = host()
    there.manager.expect_image(ONE)
    there.ask(ONE)
    assert (there.state(ONE), there.served, there.strategy.asked) == (State.ARRIVING, [], [])
    there.clock.advance(2.0)
    there.manager.take_in(ONE, IMAGE)
    assert there.state(ONE) is State.RESTORING
    assert there.manager.arrivals() == []
    there.clock.advance(1.0)
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert there.manager.arrivals() == [(ONE, 3.0, "")]
    assert there.manager.arrivals() == []
    assert [call.bind for _, call in there.delivered] == [True]
    starts = there.manager.accounts.starts()
    assert (starts["moved"].count, starts["moved"].median_s) == (1, 3.0)
    assert "restore" not in starts


def test_whose_image_never_comes_begins_anew(host: Build) -> None:
    there = host()
    there.manager.expect_image(ONE)
    there.ask(ONE)
    there.manager.give_up_image(ONE)
    assert there.state(ONE) is State.STARTING
    there.manager.step()
    there.say(ONE, Ready(0.0))
    assert there.served == [ONE]
    there.answer(ONE)
    assert_is_at_home(there)


def test_whose_image_is_of_no_use_begins_anew_and_that_is_told(host: Build) -> None:
    there = host()
    there.manager.expect_image(ONE)
    there.manager.take_in(ONE, IMAGE)
    there.checkpointer.restores[0].result = RestoreFailed("actor-0", "no such file")
    there.manager.step()
    ((member, _, lost),) = there.manager.arrivals()
    assert member == ONE
    assert "no such file" in lost
    assert there.state(ONE) is State.STARTING
    assert there.checkpointer.dropped == [IMAGE]
    assert "moved" not in there.manager.accounts.starts()


def test_who_is_put_away_meanwhile_is_not_made(host: Build) -> None:
    there = host()
    there.manager.expect_image(ONE)
    there.manager.retire(ONE)
    there.manager.give_up_image(ONE)
    assert there.state(ONE) is State.COLD
    assert there.strategy.asked == []


def test_who_is_ended_meanwhile_is_expected_no_more(host: Build) -> None:
    there = host()
    there.manager.expect_image(ONE)
    there.manager.end(ONE)
    there.up(ONE)
    assert_is_at_home(there)


def assert_is_at_home(there: Host) -> None:
    """Its next image is one of here, and nobody is told that it arrived."""
    assert there.manager.image_of(ONE) is None
    dumped(there)
    there.ask(ONE)
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    assert there.manager.arrivals() == []
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


def test_nothing_is_freed_while_an_image_is_on_its_way(host: Build) -> None:
    there = host()
    there.up(ONE)
    there.manager.end(ONE)
    there.manager.expect_image(ONE)
    there.manager.tick()
    assert there.checkpointer.freed == []
    there.manager.take_in(ONE, IMAGE)
    there.manager.tick()
    assert there.checkpointer.freed == []
    there.checkpointer.restores[0].result = Restored()
    there.manager.step()
    there.manager.tick()
    assert there.checkpointer.freed == [[os.getpid()]]
