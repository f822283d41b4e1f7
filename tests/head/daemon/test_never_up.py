"""A run process that hangs before it has registered is ended, and its run says why."""

from __future__ import annotations

import pytest
from worlds import World

from artos.protocol.run_state import STARTING
from head.daemon.effects import Effect, Kill
from head.daemon.scheduler import Scheduler

PATIENCE = 3_600.0 + 300.0


def later(world: World, seconds: float, hold: str = "") -> list[Effect]:
    world.clock.advance(seconds)
    return world.scheduler.turn(world.clock.now(), hold=hold)


def hangs(world: World) -> str:
    """Let the process of r1 hang for as long as it may; returns why it is killed then."""
    world.turn()
    assert later(world, PATIENCE - 1) == []
    (effect,) = later(world, 1.0)
    assert isinstance(effect, Kill)
    assert effect.run.name == "r1"
    assert later(world, 1.0) == [], "once is enough"
    return effect.why


def test_a_run_that_never_registers_has_failed_and_leaves_its_place(world: World) -> None:
    world.scheduler = Scheduler(at_once=1)
    world.__post_init__()
    world.submit("r1")
    world.submit("r2")
    why = hangs(world)
    assert why == (
        "its process had not registered after 3,900 s and was killed: its log says how far it "
        "came (artos logs r1)"
    )
    waits_for = world.scheduler.waits.of(world.scheduler.runs["r1"])
    assert waits_for == "the end of its process, which was killed"
    assert world.scheduler.runs["r2"].state == "queued"
    world.ended("r1", -9, "killed (SIGKILL)")
    run = world.scheduler.runs["r1"]
    assert (run.state, run.outcome, run.why) == ("failed", "failed", why)
    assert world.scheduler.runs["r2"].state == STARTING, "it has the place now"
    world.check()


def test_one_that_was_up_before_begins_again(world: World) -> None:
    """It may have learned for days, and what it waited for may be there by now."""
    world.begin("r1")
    world.ended("r1", -9)
    why = hangs(world)
    world.ended("r1", -9, "killed (SIGKILL)")
    run = world.scheduler.runs["r1"]
    assert (run.state, run.epoch, run.deaths, run.outcome) == (STARTING, 3, 2, "")
    for _ in range(2):
        hangs(world)
        world.ended("r1", -9, "killed (SIGKILL)")
    assert (run.outcome, run.why) == ("failed", f"its process died 4 times in a row: {why}")


@pytest.mark.parametrize("up_before", [True, False])
def test_one_that_registers_in_the_end_goes_on(up_before: bool, world: World) -> None:
    """What was to kill it was lost on its way to another machine."""
    run = world.submit("r1")
    if up_before:
        assert world.scheduler.run_up(world.run_up(run))
        world.ended("r1", -9)
    hangs(world)
    assert world.scheduler.run_up(world.run_up(run))
    world.news("r1")
    world.turn()
    assert (run.state, run.outcome, run.why) == ("running", "", "")


@pytest.mark.parametrize("up_before", [True, False])
def test_one_that_is_told_to_stop_meanwhile_was_interrupted(up_before: bool, world: World) -> None:
    if up_before:
        world.begin("r1")
        world.ended("r1", -9)
    else:
        world.submit("r1")
    world.scheduler.stop(world.scheduler.runs["r1"])
    world.turn()
    why = hangs(world)
    world.ended("r1", -9, "killed (SIGKILL)")
    run = world.scheduler.runs["r1"]
    assert (run.state, run.outcome, run.why) == ("done", "interrupted", why)


def test_only_one_that_is_not_up_is_killed(world: World) -> None:
    world.join("w1", slots=8)
    world.begin("r1")
    assert later(world, 2 * PATIENCE) == []
    world.submit("r2")
    world.turn()
    later(world, PATIENCE - 1)
    world.ended("r2", -9)
    assert world.scheduler.runs["r2"].epoch == 2
    assert later(world, PATIENCE - 1) == [], "another process has its own time"


def test_a_run_whose_user_code_may_take_longer_has_longer(world: World) -> None:
    run = world.submit("r1")
    run.request["deadline"] = 1_000.0
    world.turn()
    assert later(world, PATIENCE) == []
    (effect,) = later(world, 700.0)
    assert isinstance(effect, Kill)
    assert "after 4,600 s" in effect.why


def test_time_in_which_the_head_could_not_begin_or_hear_it_does_not_count(world: World) -> None:
    world.submit("r1")
    world.turn()
    assert later(world, 2 * PATIENCE, hold="room on the head's disk") == []
    assert later(world, PATIENCE - 1) == []
    world.scheduler.starts.count_anew(world.clock.now())
    assert later(world, PATIENCE - 1) == []
    assert len(later(world, 1.0)) == 1


def test_a_restarted_head_gives_it_as_long_again(world: World) -> None:
    world.submit("r1")
    world.turn()
    later(world, PATIENCE - 1)
    state = world.saved()
    world.scheduler = Scheduler(state.runs, state.queue, world.clock.now())
    world.turn()
    assert later(world, PATIENCE - 1) == []
    assert len(later(world, 1.0)) == 1
