"""Executors that end: opened again, given up, forgiven, and never mistaken for one another."""

from __future__ import annotations

from worlds import World

from artos.protocol.control import Assign, ExecutorEnded, Hello, Unassign


def test_an_executor_that_was_killed_is_opened_again(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.executor_ended("w1", "r1")
    assert "r1" in world.executors["w1"]


def test_an_executor_that_its_run_closed_stays_closed(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.executor_ended("w1", "r1", why="")
    world.turn()
    assert world.executors["w1"] == {}


def test_a_node_where_it_always_fails_is_given_up(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    for _ in range(3):
        world.executor_ended("w1", "r1", why="no room in /dev/shm")
    assert world.executors["w1"] == {}
    run = world.scheduler.runs["r1"]
    assert "no room in /dev/shm" in world.scheduler.waits.of(run)
    world.join("w2")
    assert set(world.places["r1"].values()) == {"w2"}


def test_a_node_that_was_given_up_is_tried_again_when_it_comes_back(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    for _ in range(3):
        world.executor_ended("w1", "r1", why="no room in /dev/shm")
    world.silence("w1")
    world.join("w1")
    assert "r1" in world.executors["w1"]


def test_the_end_of_an_old_executor_is_not_that_of_the_new_one(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    node, old = world.roster.get("w1"), world.executors["w1"]["r1"]
    world.ended("r1", -9)
    world.up("r1")
    world.ordered.clear()
    world.scheduler.executor_ended(
        node, ExecutorEnded("r1", old.epoch, "killed"), world.clock.now()
    )
    world.turn()
    assert world.ordered == []


def test_a_node_that_comes_back_with_an_old_executor_is_told_to_close_it(world: World) -> None:
    """The link was away while the run was started again; the node was never gone."""
    node = world.join("w1")
    world.begin("r1")
    stale = dict(world.executors["w1"])
    world.ended("r1", -9)
    world.up("r1")
    hello = Hello("w1", 1, "1.0", 2, 0, {"r1": stale["r1"].epoch, "r7": 3})
    orders = [effect.message for effect in world.scheduler.joined(node, hello)]
    assert orders == [Unassign("r1"), Unassign("r7")]
    world.ordered.clear()
    world.turn()
    assert [order.epoch for order in world.ordered] == [2]


def test_executors_that_lived_long_do_not_count_as_failing(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    for _ in range(10):
        world.clock.advance(61)
        world.roster.heard({node.peer: 0.0 for node in world.roster})
        world.executor_ended("w1", "r1")
    assert "r1" in world.executors["w1"]


def test_an_executor_that_its_run_never_hears_of_is_ended_and_opened_anew(world: World) -> None:
    """What was said was lost, or it hangs: the run would wait without end, and nobody know why."""
    world.join("w1")
    world.join("w2")
    world.begin("r1")
    run = world.scheduler.runs["r1"]
    for times in range(3):
        world.ordered.clear()
        for _ in range(2):
            world.news("r1", nodes={"w2": [1, 3]})
            world.turn()
            assert world.ordered == [], "there is time"
            world.clock.advance(2_399)
        world.clock.advance(1)
        world.news("r1", nodes={"w2": [1, 3]})
        world.turn()
        assert [type(each) for each in world.ordered] == [Unassign, Assign][: 2 - (times == 2)]
    assert set(world.places["r1"].values()) == {"w2"}
    why = "its executor on w1 ended 3 times in a row: the run did not hear of it for 2,400 s"
    assert world.scheduler.executors.why_given_up("r1", "w1") == why
    assert world.told[-1][1].gone == ("w1",)
    assert run.state == "running"


def test_an_executor_that_its_run_hears_of_may_be_missed_for_a_while(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.ordered.clear()
    for nodes in ({}, {"w1": [0]}, {}, {"w1": [0]}):
        world.news("r1", nodes=nodes)
        world.turn()
        world.clock.advance(2_399)
    assert world.ordered == []
    world.executor_ended("w1", "r1", why="")
    for _ in range(3):
        world.news("r1", nodes={})
        world.turn()
        world.clock.advance(4_000)
    assert world.ordered == [], "its run has closed it"
