"""What a schedule tells: a run why it moves, people what it waits for, a node what to open."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from world_events import restarted
from worlds import World

from artos.protocol.control import Assign, RunNews, RunUp
from artos.protocol.run_state import RUNNING
from artos.protocol.views import RunFacts
from head.daemon.effects import Begin
from head.daemon.run import Run
from head.daemon.scheduler import MOST_IN_A_ROW, Scheduler


def waits_for(world: World, run: str) -> str:
    return world.scheduler.waits.of(world.scheduler.runs[run])


def why(world: World, run: str) -> str:
    return next(placed.why for name, placed in reversed(world.told) if name == run)


# -- people ----------------------------------------------------------------------------------------


def test_what_a_run_waits_for_until_it_is_up(world: World) -> None:
    world.submit("r1")
    assert waits_for(world, "r1").startswith("its registration, then a worker")
    world.submit("r2")
    assert waits_for(world, "r2").startswith("a worker: none is there")
    world.join("w1", slots=1)
    assert waits_for(world, "r1") == "its registration"
    assert waits_for(world, "r2") == "a slot: 1 runs share 1"
    world.join("w2", slots=2)
    assert waits_for(world, "r2") == "its registration"
    world.news("r1", "starting")
    world.news("r1", "starting", "the learner")
    assert waits_for(world, "r1") == "the learner", "it knows better itself"


def test_a_run_that_fails_on_every_worker_names_them_all(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    for node in ("w1", "w2"):
        for number in range(MOST_IN_A_ROW):
            assert "worker" not in waits_for(world, "r1")
            world.executor_ended(node, "r1", f"no memory on {node} ({number})")
    assert waits_for(world, "r1") == "a worker that can run it: " + "; ".join(
        f"its executor on {node} ended 3 times in a row: no memory on {node} (2)"
        for node in ("w1", "w2")
    )
    assert world.scheduler.runs["r1"].places == {}
    assert "ended 3 times in a row" in why(world, "r1")


def test_a_node_where_a_run_failed_is_forgiven_when_it_is_up_anew(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    for _ in range(MOST_IN_A_ROW):
        world.executor_ended("w1", "r1")
    assert world.scheduler.runs["r1"].places == {}
    world.ended("r1", -9)
    world.up("r1")
    assert set(world.places["r1"].values()) == {"w1"}
    assert why(world, "r1") == "the run is up"


def test_what_went_wrong_with_a_run_that_is_over_is_no_fault_of_the_next(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    for _ in range(MOST_IN_A_ROW):
        world.executor_ended("w1", "r1")
    assert world.scheduler.executors.why_given_up("r1", "w1")
    world.ended("r1", 1)
    assert not world.scheduler.executors.why_given_up("r1", "w1")
    world.begin("r1")
    assert set(world.places["r1"].values()) == {"w1"}


def test_executors_that_end_now_and_then_are_opened_again(world: World) -> None:
    """Only those that end soon after they began, again and again, are given up."""
    world.join("w1")
    world.begin("r1")
    for _ in range(2 * MOST_IN_A_ROW):
        world.clock.advance(10_000)
        world.roster.heard({node.peer: 0.0 for node in world.roster})
        world.executor_ended("w1", "r1")
        assert "r1" in world.executors["w1"]


@pytest.mark.parametrize("stopped", ["in the queue", "while it runs"])
def test_why_a_stopped_run_is_over(world: World, stopped: str) -> None:
    world.begin("r1")
    run = world.scheduler.runs["r1"] if stopped == "while it runs" else world.submit("r2")
    world.scheduler.stop(run)
    if stopped == "while it runs":
        assert run.state == "stopping"
        world.ended("r1", -9, "killed by signal 9")
        assert run.why == "it died while it was stopping: killed by signal 9"
    else:
        assert run.why == "it was stopped while it waited in the queue"
    world.scheduler.stop(run)
    assert run.outcome == "interrupted", "stopping what is over changes nothing"


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_is_told_who_is_gone_and_why_it_moves(world: World) -> None:
    world.join("w1")
    world.join("w2")
    world.actors = 2
    world.begin("r1")
    assert why(world, "r1") == "the run is up"
    world.drain("w1")
    assert why(world, "r1") == "drained"
    world.silence("w2")
    assert why(world, "r1") == "not heard"
    world.join("w3", slots=1)
    assert why(world, "r1") == "there is room now"


def test_nodes_that_were_lost_one_after_the_other_are_told_together(world: World) -> None:
    for name in ("w1", "w2", "w3"):
        world.join(name, slots=1)
    world.actors = 3
    world.begin("r1")
    for name in ("w1", "w2"):
        world.scheduler.gone([name], f"{name} is lost")
    world.roster.leave("w1", "lost")
    world.roster.leave("w2", "lost")
    world.turn()
    (_, placed) = world.told[-1]
    assert set(placed.gone) == {"w1", "w2"}
    assert set(placed.actors.values()) == {"w3"}
    assert placed.why == "w2 is lost"


def test_a_run_is_told_that_a_node_is_gone_which_its_actors_were_leaving(world: World) -> None:
    """They have places elsewhere already, and finish their rounds where they are."""
    world.join("w1")
    world.begin("r1")
    world.join("w2", slots=4)
    world.drain("w1")
    assert set(world.places["r1"].values()) == {"w2"}
    assert "r1" in world.executors["w1"]
    world.silence("w1")
    assert world.told[-1][1].gone == ("w1",)
    assert why(world, "r1") == "not heard"


def test_a_run_is_told_that_an_executor_is_gone_which_its_actors_were_leaving(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.join("w2", slots=4)
    world.drain("w1")
    world.executor_ended("w1", "r1")
    assert world.told[-1][1].gone == ("w1",)
    assert why(world, "r1") == "its executor on w1 ended: killed"


def test_an_executor_that_ends_as_its_node_is_drained_is_gone(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.join("w2", slots=4)
    world.executor_ended("w1", "r1", drained=True)
    assert set(world.told[-1][1].actors.values()) == {"w2"}
    assert world.told[-1][1].gone == ("w1",)


def test_a_run_is_told_that_an_executor_is_gone_after_which_no_other_is_opened(
    world: World,
) -> None:
    world.join("w1", slots=4)
    world.begin("r1")
    world.join("w2", slots=4)
    for _ in range(MOST_IN_A_ROW):
        assert world.told[-1][1].gone == (), "another one is opened, and says so itself"
        world.executor_ended("w1", "r1")
    assert world.told[-1][1].gone == ("w1",)
    assert set(world.places["r1"].values()) == {"w2"}
    assert "ended 3 times in a row" in why(world, "r1")


def test_news_are_told_apart_by_what_they_change(world: World) -> None:
    world.begin("r1")
    run, say = world.scheduler.runs["r1"], partial(world.scheduler.run_news, now=0.0)
    assert not say(RunNews("r1", "running", "", RunFacts(steps=0)))
    assert run.reached == 0
    assert not say(RunNews("r1", "running", "", RunFacts(steps=10)))
    assert (run.reached, run.facts, run.state) == (10, RunFacts(steps=10), "running")
    assert not say(RunNews("r1", "running", "rows"))
    assert run.waits_for == "rows"
    assert run.facts == RunFacts(steps=10), "old facts stay until new ones"
    assert not say(RunNews("r1", "running", "", RunFacts()))
    run.deaths = 1
    assert not say(RunNews("r1", "running", "", RunFacts(steps=10)))
    assert run.deaths == 1, "that is as far as it had got"
    assert say(RunNews("r1", "running", "", RunFacts(steps=11)))
    assert run.deaths == 0
    assert say(RunNews("r1", "stopping"))
    assert run.state == "stopping"
    assert not say(RunNews("r1", "stopping"))
    assert say(RunNews("r1", "failed", "its learner died"))
    assert (run.state, run.outcome, run.why) == ("stopping", "failed", "its learner died")
    world.ended("r1", None)
    assert not say(RunNews("r1", "running")), "it is over"
    assert not say(RunNews("r9", "running")), "nobody submitted that"
    assert run.state == "failed"


def test_a_run_that_is_stopping_stays_so_when_its_process_is_up(world: World) -> None:
    run = world.submit("r1")
    world.scheduler.stop(run)
    assert world.up("r1")
    assert run.state == "stopping"
    assert not world.scheduler.run_up(msgspec.structs.replace(world.run_up(run), run="r9"))


def test_only_so_many_runs_that_are_over_are_remembered() -> None:
    scheduler = Scheduler([_over(f"old{n}") for n in range(300)])
    scheduler.submit(Run("new", {}, "runs/new"))
    scheduler.turn(0.0)
    assert [*scheduler.runs] == [*(f"old{n}" for n in range(100, 300)), "new"]


def _over(name: str) -> Run:
    run = Run(name, {}, f"runs/{name}")
    run.end("done", "")
    return run


# -- nodes -----------------------------------------------------------------------------------------


def test_a_node_is_told_all_that_an_executor_needs(world: World) -> None:
    world.join("w1", slots=3)
    world.submit("r1", archive="abc")
    run = world.scheduler.runs["r1"]
    up = RunUp("r1", run.epoch, 1, b"plan", "code", "tcp://h:1", "tcp://h:2", 4)
    assert world.scheduler.run_up(up)
    world.turn()
    assert world.executors["w1"] == {
        "r1": Assign("r1", 1, b"plan", "code", "abc", "tcp://h:1", "tcp://h:2", 3)
    }


def test_an_executor_that_it_should_not_have_is_closed_at_once(world: World) -> None:
    """Only on a node that leaves is there a round to be ended, and only by a run that is up."""
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    world.ended("r1", -9)
    assert world.executors["w1"] == world.executors["w2"] == {}
    world.up("r1")
    world.drain("w1")
    assert "r1" in world.executors["w1"]
    world.ended("r1", -9)
    world.clock.advance(61)
    world.roster.heard({node.peer: 0.0 for node in world.roster})
    world.turn()
    assert world.executors["w1"] == {}


def test_a_run_that_died_has_no_round_to_end_on_a_node_that_leaves(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.roster.leave("w1", "drained")
    world.scheduler.leaves("w1", "drained")
    world.ended("r1", -9)
    assert world.executors["w1"] == {}


def test_a_daemon_that_greets_again_keeps_the_executors_that_it_should_have(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    executor = world.executors["w1"]["r1"]
    world.ordered.clear()
    world.join("w1")
    assert world.ordered == [executor], (
        "nothing is closed; it is told again, as it may have lost it"
    )


@pytest.mark.parametrize("again", ["the head", "the connection"])
def test_actors_that_leave_a_node_are_given_time_also_if_it_greets_again(
    again: str, world: World
) -> None:
    world.join("w1")
    world.begin("r1")
    world.join("w2", slots=4)
    world.drain("w1")
    if again == "the head":
        world = restarted(world)
    else:
        world.join("w1")
    assert set(world.scheduler.runs["r1"].places.values()) == {"w2"}
    assert "r1" in world.executors["w1"]
    world.clock.advance(61)
    world.roster.heard({node.peer: 0.0 for node in world.roster})
    world.turn()
    assert world.executors["w1"] == {}


def test_actors_of_other_runs_make_a_node_full() -> None:
    """One more goes to the node with the fewest actors of all runs; its own count once."""
    r1 = Run("r1", {}, "", state=RUNNING, epoch=1, places={0: "w2"})
    r2 = Run("r2", {}, "", state=RUNNING, epoch=1, places={0: "w1", 1: "w1", 2: "w2"})
    world = World(scheduler=Scheduler([r1, r2]), processes={"r1": 1, "r2": 1}, actors=1)
    for name in ("w1", "w2"):
        world.join(name, slots=8)
    world.up("r1")
    world.actors = 4
    world.up("r2")
    assert world.places["r2"][3] == "w1", "two there, two here: the first"
    world.submit("r3")
    world.actors = 3
    world.up("r3")
    assert [*world.places["r3"].values()] == ["w2", "w1", "w2"]


def test_nobody_begins_while_nobody_may(world: World) -> None:
    world.scheduler.submit(Run("r1", {}, "runs/r1"))
    assert world.scheduler.turn(0.0, hold="room on the disk") == []
    run = world.scheduler.runs["r1"]
    assert world.scheduler.waits.of(run) == "room on the disk"
    assert [type(effect) for effect in world.scheduler.turn(0.0)] == [Begin]


@pytest.mark.parametrize(("placement", "nodes"), [("pack", 1), ("spread", 2)])
def test_a_run_is_packed_or_spread_as_it_wishes(placement: str, nodes: int, world: World) -> None:
    world.join("w1", slots=4)
    world.join("w2", slots=4)
    world.submit("r1", placement=placement)
    world.up("r1")
    assert len(set(world.places["r1"].values())) == nodes
