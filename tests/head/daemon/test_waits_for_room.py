"""Runs that the head's memory has no room for wait until others have left it."""

from __future__ import annotations

from worlds import World

from artos.runs.exit_status import ExitStatus
from head.daemon.scheduler import Scheduler


def ends_without_room(world: World, name: str) -> None:
    world.news(name, "no_room", why="it needs 300 MB, 100 MB are free")
    world.ended(name, ExitStatus.NO_ROOM)


def began(world: World, name: str) -> int:
    return sum(each == name for each, _, _ in world.began)


def test_it_waits_until_another_run_has_left(world: World) -> None:
    world.join("w1", slots=4)
    world.begin("r1")
    run = world.submit("r2")
    ends_without_room(world, "r2")
    assert (run.state, run.outcome, run.deaths) == ("queued", "", 0)
    assert world.scheduler.waits.of(run) == (
        "room in the head's memory: it needs 300 MB, 100 MB are free"
    )
    world.turn()
    world.submit("r3")
    assert began(world, "r2") == 1
    assert began(world, "r3") == 1, "who needs less does not wait for it"
    world.news("r1", "done")
    world.ended("r1", 0)
    assert began(world, "r2") == 2
    assert world.up("r2")
    assert not run.no_room
    assert run.restarts == 0
    world.ended("r2", -9)
    assert run.restarts == 1


def test_now_and_then_it_is_tried_again_as_others_than_runs_may_leave(world: World) -> None:
    world.join("w1")
    world.submit("r1")
    for times in range(1, 4):
        assert began(world, "r1") == times
        ends_without_room(world, "r1")
        world.clock.advance(59)
        world.turn()
        assert began(world, "r1") == times
        world.clock.advance(2)
        world.turn()


def test_those_that_wait_do_not_wake_each_other(world: World) -> None:
    """A process that found no room has left none."""
    world.join("w1")
    for name in ("r1", "r2"):
        world.submit(name)
        ends_without_room(world, name)
    assert began(world, "r1") == began(world, "r2") == 1


def test_a_user_may_stop_it_whether_or_not_it_waits(world: World) -> None:
    world.join("w1")
    waiting, trying = world.submit("r1"), world.submit("r2")
    ends_without_room(world, "r1")
    world.scheduler.stop(waiting)
    assert waiting.outcome == "interrupted"
    world.scheduler.stop(trying)
    ends_without_room(world, "r2")
    assert trying.outcome == "interrupted"
    world.clock.advance(100)
    world.turn()
    assert began(world, "r1") == began(world, "r2") == 1


def test_a_head_that_was_killed_tries_once_more(world: World) -> None:
    world.join("w1")
    world.submit("r1")
    ends_without_room(world, "r1")
    saved = world.saved()
    later = Scheduler(saved.runs, saved.queue, world.clock.now())
    later.turn(world.clock.now())
    assert later.runs["r1"].no_room, "it is not asked at once: others of before begin first"
    world.clock.advance(61)
    later.turn(world.clock.now())
    assert later.runs["r1"].state == "starting"
