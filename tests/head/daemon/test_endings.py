"""Runs are told to end once by a head that ends, again by a user who asks again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from worlds import World

from head.daemon.effects import Begin, Finish
from head.daemon.quotas import Quota, Quotas
from head.daemon.scheduler import Scheduler


def told(world: World) -> list[str]:
    effects = world.scheduler.turn(world.clock.now(), hold="the next head")
    return [effect.run.name for effect in effects if isinstance(effect, Finish)]


def test_who_is_stopping_already_is_not_told_again_as_the_head_ends(world: World) -> None:
    """A second signal ends a run at once, without what it has in flight."""
    world.join("w1", slots=3)
    world.begin("r1", "r2", "r3")
    world.scheduler.stop(world.scheduler.runs["r1"])
    assert told(world) == ["r1"]
    world.news("r2", "stopping")
    world.scheduler.stop_all(["r1", "r2", "r3"])
    assert told(world) == ["r3"]
    world.scheduler.stop_all(["r1", "r2", "r3"])
    assert told(world) == []


def test_nor_is_who_has_used_up_a_quota() -> None:
    world = World(scheduler=Scheduler(quotas=Quotas({"*": Quota(cpu_seconds=1.0)})))
    world.join("w1")
    world.begin("r1")
    world.news("r1", usage={"cpu_seconds_held": 2.0})
    assert told(world) == ["r1"]
    world.scheduler.stop_all(["r1"])
    assert told(world) == []


def test_a_user_who_asks_again_is_heard(world: World) -> None:
    world.begin("r1")
    for _ in range(2):
        world.scheduler.stop(world.scheduler.runs["r1"])
        assert told(world) == ["r1"]


def out_of_quota(world: World) -> None:
    world.news("r1", usage={"cpu_seconds_held": 2.0})


@pytest.mark.parametrize(
    "saves",
    [
        pytest.param(lambda world: world.scheduler.stop_all(["r1"], later=True), id="drain"),
        pytest.param(lambda world: world.scheduler.stop_all(["r1"]), id="end of the head"),
        pytest.param(out_of_quota, id="quota"),
    ],
)
@pytest.mark.parametrize("of_another_head", [False, True])
def test_a_user_who_first_stops_what_saves_already_does_not_end_it_at_once(
    saves: Callable[[World], None], of_another_head: bool
) -> None:
    world = World(scheduler=Scheduler(quotas=Quotas({"*": Quota(cpu_seconds=1.0)})))
    world.join("w1")
    world.begin("r1")
    saves(world)
    assert told(world) == ["r1"]
    if of_another_head:
        world.news("r1", "stopping")
        world = successor(world)
    run = world.scheduler.runs["r1"]
    world.scheduler.stop(run)
    assert told(world) == []
    assert (run.state, run.goes_on) == ("stopping", False)
    world.scheduler.stop(run)
    assert told(world) == ["r1"], "they want it at once"


def test_a_stop_that_could_not_be_saved_was_none(world: World) -> None:
    """Nor is what the run was told before forgotten: it would be told again."""
    world.begin("r1")
    run = world.scheduler.runs["r1"]
    world.scheduler.stop_all(["r1"], later=True)
    assert told(world) == ["r1"]
    before = msgspec.structs.replace(run)
    world.scheduler.stop(run)
    world.scheduler.restore(run, before)
    world.news("r1", "running")
    assert told(world) == []
    world.scheduler.stop(run)
    assert told(world) == []


def test_runs_go_on_with_the_next_head_if_only_its_machine_is_taken_back(world: World) -> None:
    world.join("w1", slots=3)
    world.begin("r1", "r2", "r3")
    run, dies, stopped = (world.scheduler.runs[name] for name in ("r1", "r2", "r3"))
    world.scheduler.stop_all(["r1", "r2", "r3"], later=True)
    assert told(world) == ["r1", "r2", "r3"]
    world.news("r1", "stopping")
    world.news("r1", "interrupted")
    world.scheduler.run_ended("r1", 130, "")
    world.scheduler.run_ended("r2", -9, "killed")
    for each in (run, dies):
        assert (each.state, each.outcome, each.resume) == ("queued", "", True)
        assert each.deaths == 0
    world.scheduler.stop(stopped)
    world.scheduler.run_ended("r3", 130, "")
    assert (stopped.state, stopped.outcome) == ("done", "interrupted"), "its user wants it"
    restarted = Scheduler([run, dies, stopped])
    begun = [effect.run.name for effect in restarted.turn(0.0) if isinstance(effect, Begin)]
    assert begun == ["r1", "r2"]
    assert not run.goes_on


def test_who_died_before_it_was_told_is_not_told(world: World) -> None:
    world.begin("r1")
    world.scheduler.stop(world.scheduler.runs["r1"])
    world.scheduler.run_ended("r1", -9, "killed")
    assert told(world) == []
    assert world.scheduler.runs["r1"].outcome == "interrupted"


@pytest.mark.parametrize("killed_after", range(4))
def test_a_user_who_stops_a_run_is_heard_whenever_its_head_is_killed(killed_after: int) -> None:
    """Here the head's machine had been taken back before; each step is saved."""
    world = World()
    world.begin("r1")
    steps: list[Callable[[], object]] = [
        lambda: world.scheduler.stop_all(["r1"], later=True),
        lambda: world.news("r1", "stopping"),
        lambda: world.scheduler.stop(world.scheduler.runs["r1"]),
    ]
    for number, step in enumerate(steps):
        if number == killed_after:
            world = successor(world)
        step()
        told(world)
    if killed_after == len(steps):
        world = successor(world)
    world.scheduler.run_ended("r1", 130, "")
    run = world.scheduler.runs["r1"]
    assert (run.state, run.outcome, run.goes_on) == ("done", "interrupted", False)


def test_a_head_that_was_killed_before_it_told_a_run_to_save_leaves_it_to_the_next(
    world: World,
) -> None:
    world.begin("r1")
    world.scheduler.stop_all(["r1"], later=True)
    world = successor(world)
    assert world.scheduler.runs["r1"].goes_on
    assert told(world) == []
    world.news("r1", "running")
    assert told(world) == ["r1"]
    world.news("r1", "running")
    assert told(world) == []
    world.scheduler.run_ended("r1", 130, "")
    assert world.scheduler.runs["r1"].state == "queued"


def test_a_cluster_that_is_stopped_has_no_run_go_on(world: World) -> None:
    """Also if an earlier head had told them to save for the next one, and was killed meanwhile."""
    world.begin("r1")
    world.scheduler.stop_all(["r1"], later=True)
    assert told(world) == ["r1"]
    world = successor(world)
    world.news("r1", "stopping")
    world.scheduler.stop_all(["r1"])
    assert told(world) == []
    world = successor(world)
    world.scheduler.run_ended("r1", 130, "")
    run = world.scheduler.runs["r1"]
    assert (run.state, run.outcome) == ("done", "interrupted")


def successor(world: World) -> World:
    """What the next head finds after this one was killed."""
    state = world.saved()
    scheduler = Scheduler(state.runs, state.queue, world.clock.now())
    return World(world.clock, scheduler, executors=world.executors, processes=world.processes)
