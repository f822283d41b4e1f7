"""A run that was accepted begins again after its process died, and is not refused then."""

from __future__ import annotations

import pytest
from worlds import World

from head.daemon.run import Seconds


def could_not_begin_again(world: World, told: bool, status: int = 2) -> None:
    """Its registration was killed, which a run process takes for a refusal, or its preload."""
    if told:
        state = {1: "failed", 2: "refused"}[status]
        world.news("r1", state, "it was killed")
    world.ended("r1", status, "it was killed")


@pytest.mark.parametrize("status", [1, 2])
@pytest.mark.parametrize("told", [True, False])
def test_what_was_accepted_is_never_refused_afterwards(
    told: bool, status: int, world: World
) -> None:
    """It may have learned for days: it is tried again and fails at last, to be resumed."""
    world.begin("r1")
    world.ended("r1", -9)
    could_not_begin_again(world, told, status)
    run = world.scheduler.runs["r1"]
    assert (world.began[-1], run.outcome) == (("r1", 3, True), "")
    world.up("r1")
    world.ended("r1", -9)
    could_not_begin_again(world, told, status)
    assert (run.outcome, run.state) == ("failed", "failed")
    assert "4 times in a row: it was killed" in run.why


def test_a_run_that_is_stopped_while_it_begins_again_is_not_refused(world: World) -> None:
    world.begin("r1")
    world.ended("r1", -9)
    world.scheduler.stop(world.scheduler.runs["r1"])
    could_not_begin_again(world, told=True)
    assert world.scheduler.runs["r1"].outcome == "interrupted"


def test_whoever_resumes_a_run_may_be_refused(world: World) -> None:
    """With settings, say, that do not fit its checkpoint: it is told what became of it before."""
    world.begin("r1")
    world.news("r1", steps=1_200)
    world.ended("r1", 0)
    for _ in range(2):
        world.submit("r1", resume=True)
        world.ended("r1", 2, "that does not fit")
        run = world.scheduler.runs["r1"]
        assert (run.outcome, run.facts.steps) == ("refused", 1_200)
        assert run.why == "that does not fit; before that, it was done after 1,200 steps"


def test_a_new_run_where_another_was_begins_with_nothing_of_it(world: World) -> None:
    """Its folder was removed, say. The numbers of processes go on, as executors may be left."""
    world.begin("r1")
    usage = {"cpu_seconds_held": 90.0, "device_seconds_held": 10.0}
    world.news("r1", steps=1_200, usage=usage)
    world.ended("r1", -9)
    world.up("r1")
    world.ended("r1", 0)
    world.begin("r1")
    world.news("r1", steps=7, usage=usage)
    run = world.scheduler.runs["r1"]
    assert (run.epoch, run.restarts, run.reached, run.was) == (3, 0, 7, "")
    assert run.held == Seconds(90.0, 10.0)
    world.ended("r1", -9)
    world.up("r1")
    world.ended("r1", 0)
    assert world.submit("r1", resume=True).reached == 7
    assert (world.scheduler.runs["r1"].epoch, world.scheduler.runs["r1"].restarts) == (5, 2)
