"""On which machine a run itself lives: where the device is that its learner asks for."""

from __future__ import annotations

import msgspec
import pytest
from worlds import World

from artos.protocol.control import FinishRun, Leave, RunNews
from artos.protocol.run_state import QUEUED, RUNNING, STARTING, STOPPING
from artos.runs.exit_status import ExitStatus
from artos.transport.keys import new_run_keys
from head.daemon.carriers import Place, chosen
from head.daemon.effects import Finish
from head.daemon.quotas import Quota, Quotas
from head.daemon.roster import Node
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler

KEYS = new_run_keys()
HERE = Place("", "")


@pytest.mark.parametrize(
    ("wants", "places", "where"),
    [
        ("pool", [HERE], ""),
        ("pool", [HERE, Place("w1", "cpu:a")], "w1"),
        ("cuda", [HERE, Place("w1", "cpu:a")], ""),
        ("cuda", [HERE, Place("w1", "cpu:a"), Place("w2", "cuda:0")], "w2"),
        ("auto", [HERE, Place("w1", "cpu:a"), Place("w2", "cuda:3")], "w2"),
        ("cuda:1", [HERE, Place("w1", "cuda:0"), Place("w2", "cuda:0,cuda:1")], "w2"),
        ("pool", [Place("", "cpu:a"), Place("w1", "cpu:a=2")], ""),
        ("pool", [Place("", "cpu:a", 1), Place("w1", "cpu:a"), Place("w2", "cpu:a=2")], "w2"),
        ("pool", [HERE, Place("w1", "cpu:a", 1), Place("w2", "cpu:a=3", 2)], "w2"),
        # None is free: where the fewest share one.
        ("pool", [Place("", "cpu:a", 2), Place("w1", "cpu:a=2", 2)], "w1"),
        ("pool", [Place("", "cpu:a", 1), Place("w1", "cpu:a", 1)], ""),
        ("cuda", [HERE, Place("w1", "cuda:0", 9)], "w1"),
    ],
)
def test_where_a_device_is_free(wants: str, places: list[Place], where: str) -> None:
    assert chosen(wants, places) == where


def submitted(world: World, name: str = "r1", wants: str = "pool", account: str = "") -> Run:
    request = {"settings": {"device": wants}}
    run = Run(name, request, f"runs/{name}", keys=KEYS, account=account)
    world.scheduler.submit(run)
    world.turn()
    return run


def joined(
    world: World, name: str, devices: str = "cpu:a", shares: bool | None = True,
    switches: bool = False,
) -> Node:  # fmt: skip
    node = world.join(name, devices=devices)
    node.memory_mb = 4096
    if shares is not None:
        world.scheduler.carriers.said(node, shares=shares, switches=switches)
    world.turn()
    return node


def test_a_run_begins_on_the_node_with_the_device_and_others_do_not() -> None:
    world = World()
    joined(world, "w1", "")
    joined(world, "w2")
    assert submitted(world).carrier == "w2"
    assert submitted(world, "r2", "cpu").carrier == ""
    assert submitted(world, "r3", "policy=cpu,model=pool").carrier == "w2", "one learner asks"
    assert submitted(world, "r4", "policy=cpu,model=cpu").carrier == ""
    world.check()


def test_a_run_counts_for_as_many_devices_as_its_learners_use() -> None:
    world = World()
    joined(world, "w1", "cpu:a=3")
    joined(world, "w2", "cpu:a=2")
    run = submitted(world, wants="policy=pool,model=pool")
    assert run.carrier == "w1"
    assert submitted(world, "r2").carrier == "w2"
    plan = b'{"device": "pool", "replicas": 4}'
    world.scheduler.run_up(msgspec.structs.replace(world.run_up(run), plan=plan))
    assert submitted(world, "r3").carrier == "w2", "as its plan says, once it is known"


def test_a_run_of_an_account_begins_where_the_daemon_may_switch() -> None:
    world = World()
    joined(world, "w1")
    assert submitted(world, "r1", account="artos-ann").carrier == ""
    joined(world, "w2", switches=True)
    assert submitted(world, "r2", account="artos-ann").carrier == "w2"
    assert submitted(world, "r3").carrier == "w1"


def seeks(world: World, device: str) -> bool:
    """Whether a run that says what device its code names is told to finish."""
    world.scheduler.run_news(RunNews("r1", STARTING, device=device), world.clock.now())
    effects = world.scheduler.turn(world.clock.now())
    return Finish(world.scheduler.runs["r1"]) in effects


def test_a_run_whose_code_names_a_device_moves_to_it_before_it_is_up() -> None:
    world = World()
    joined(world, "w1", "")
    joined(world, "w2")
    run = submitted(world, wants="cpu")
    assert (run.active, run.carrier) == (True, "")
    assert seeks(world, "pool")
    world.news("r1", "refused", "there is no device here")
    world.ended("r1", 2)
    assert (run.active, run.carrier, run.epoch) == (True, "w2", 2)
    assert not seeks(world, "pool"), "it is there"
    world.up("r1")
    assert run.state == RUNNING


def test_a_run_stays_where_no_node_has_the_device_that_its_code_names() -> None:
    world = World()
    joined(world, "w1", "cpu:a")
    run = submitted(world, wants="cpu")
    assert not seeks(world, "cuda")
    world.news("r1", "refused", "device 'cuda' needs a GPU")
    world.ended("r1", 2)
    assert (run.outcome, run.why) == ("refused", "device 'cuda' needs a GPU")


def test_a_node_that_has_not_the_heads_folder_carries_none() -> None:
    world = World()
    joined(world, "w1", shares=False)
    assert submitted(world).carrier == ""


def test_a_run_waits_for_a_node_that_may_be_about_to_carry_it() -> None:
    world = World()
    run = submitted(world)
    assert (run.state, world.scheduler.waits.of(run)) == (
        QUEUED,
        "a worker with a device (pool): no worker is there; start one with "
        "`artos worker --head ...`",
    )
    node = joined(world, "w1", shares=None)
    assert (run.state, world.scheduler.waits.of(run)) == (
        QUEUED,
        "a worker with a device (pool): w1 is about to join",
    )
    other = submitted(world, "r2", "cpu")
    assert other.active, "it stands in nobody's way"
    world.scheduler.carriers.said(node, shares=False)
    world.turn()
    assert (run.active, run.carrier) == (True, "")


def test_a_run_does_not_wait_where_the_heads_machine_has_the_device() -> None:
    world = World(scheduler=Scheduler(devices="cpu:a"))
    assert submitted(world).active


def test_runs_that_nodes_carry_take_no_room_on_the_heads_machine() -> None:
    world = World(scheduler=Scheduler(at_once=1))
    for name in ("w1", "w2", "w3"):
        joined(world, name)
    runs = [submitted(world, f"r{number}") for number in range(3)]
    assert sorted(run.carrier for run in runs) == ["w1", "w2", "w3"]
    assert submitted(world, "r3", "cpu").active
    waits = submitted(world, "r4", "cpu")
    assert "carries 1 runs at once" in world.scheduler.waits.of(waits)


def test_a_head_that_is_full_holds_back_none_that_a_node_may_carry() -> None:
    world = World(scheduler=Scheduler(at_once=1, devices="cpu:h"))
    joined(world, "w1", "cuda:0")
    first = submitted(world, "r1", "cpu")
    waits = submitted(world, "r2", "cpu")
    here = submitted(world, "r3", "cpu:h")  # only the head's machine has that device
    there = submitted(world, "r4", "cuda")
    assert [first.active, waits.active, here.active, there.active] == [True, False, False, True]
    assert there.carrier == "w1"
    assert "or a worker that carries it (cpu:h)" in world.scheduler.waits.of(here)
    joined(world, "w2", "cpu:h")
    assert (here.active, here.carrier) == (True, "w2")
    world.ended("r1", 0)
    assert (waits.active, waits.carrier) == (True, "")
    world.check()


@pytest.mark.parametrize("quotas", [None, Quotas(users={"ann": Quota(devices=9)})])
def test_beside_a_full_head_no_more_begin_than_there_are_slots(quotas: Quotas | None) -> None:
    world = World(scheduler=Scheduler(at_once=1, quotas=quotas))
    submitted(world, "r1", "cpu")
    runs = [submitted(world, f"q{number}", "pool") for number in range(3)]
    joined(world, "w1", "cpu:a=9")
    assert [run.active for run in runs] == [True, False, False], "the other slot is for r1"
    world.check()


def test_without_its_node_a_run_goes_on_on_another() -> None:
    world = World()
    for name in ("w1", "w2"):
        joined(world, name)
    run = submitted(world)
    assert (run.carrier, world.up("r1")) == ("w1", True)
    world.processes.clear()
    world.silence("w1")
    assert (run.epoch, run.carrier, run.resume, run.deaths) == (2, "w2", True, 1)
    assert world.up("r1")
    world.check()


def test_it_waits_for_its_node_that_is_restarted() -> None:
    world = World()
    joined(world, "w1")
    run = submitted(world)
    world.up("r1")
    world.scheduler.gone(["w1"], "restarted")
    del world.processes["r1"]
    node = joined(world, "w1", shares=None)
    assert run.state == QUEUED
    world.scheduler.carriers.said(node, shares=True)
    world.turn()
    assert (run.epoch, run.carrier) == (2, "w1")


def test_a_node_carries_as_many_as_its_memory_can() -> None:
    world = World()
    node = joined(world, "w1")
    node.memory_mb = 1536
    world.join("w2", slots=8)
    runs = [submitted(world, f"r{number}") for number in range(4)]
    assert [run.carrier for run in runs] == ["w1", "w1", "w1", ""]


def test_where_its_process_dies_again_and_again_it_is_not_tried_for_ever() -> None:
    world = World()
    joined(world, "w1")
    run = submitted(world)
    for carrier in ("w1", "w1", ""):
        assert run.carrier == carrier
        world.ended("r1", None, "it could not be started")
    assert (run.deaths, run.over) == (3, False)


def no_room(world: World) -> None:
    world.news("r1", "no_room", why="it needs 300 MB, 100 MB are free")
    world.ended("r1", ExitStatus.NO_ROOM)


def test_where_its_memory_has_no_room_the_next_one_is_asked_at_once() -> None:
    world = World(scheduler=Scheduler(devices="cpu:h"))
    for name, devices in (("w1", "cpu:a=3"), ("w2", "cpu:a=2"), ("w3", "")):
        joined(world, name, devices)
    run = submitted(world)
    for _ in range(2):
        for carrier in ("", "w1", "w2"):
            assert (run.carrier, run.active) == (carrier, True)
            no_room(world)
        assert run.state == QUEUED, "all that have the device were asked"
        assert "room in node w2's memory" in world.scheduler.waits.of(run)
        world.clock.advance(61)
        world.turn()
    no_room(world)
    assert world.up("r1")
    world.ended("r1", -9)
    assert (run.carrier, run.restarts) == ("", 1), "what was so before it was up counts no more"


def test_one_machine_with_the_device_is_asked_again_and_again() -> None:
    world = World()
    joined(world, "w1")
    run = submitted(world)
    for _ in range(3):
        assert (run.carrier, run.active) == ("w1", True)
        no_room(world)
        assert run.state == QUEUED
        world.clock.advance(61)
        world.turn()


def test_a_drained_node_goes_once_its_run_has_saved() -> None:
    world = World()
    for name in ("w1", "w2"):
        joined(world, name)
    run = submitted(world)
    world.up("r1")
    world.roster.leave("w1", "drained")
    world.scheduler.leaves("w1", "drained")
    effects = world.scheduler.turn(0.0)
    assert Finish(run) in effects
    world._carry_out(effects)
    world.scheduler.leaves("w1", "leaves")
    assert Finish(run) not in world.scheduler.turn(0.0), "told twice, it would end at once"
    world.news("r1", STOPPING)
    world.executors["w1"].clear()
    assert not any(isinstance(each, Leave) for each in world.ordered)
    world.ended("r1", 130)
    assert (run.epoch, run.carrier, run.resume, run.deaths) == (2, "w2", True, 0)
    world.up("r1")
    assert run.state == RUNNING
    world.clock.advance(120.0)
    world.turn()
    assert any(isinstance(each, Leave) for each in world.ordered)


def test_the_next_head_knows_who_carries_it() -> None:
    world = World()
    joined(world, "w1")
    submitted(world)
    state = world.saved()
    (run,), (node,) = state.runs, state.nodes
    assert (run.carrier, run.keys, node.devices) == ("w1", KEYS, "cpu:a")
    again = World(scheduler=Scheduler(state.runs, state.queue))
    again.expect(state.nodes)
    assert again.scheduler.all_runs.carried == {"r1"}


def test_who_is_to_end_is_told_again_when_its_node_is_back() -> None:
    """What the node was told may be lost; whether it is, nobody knows but the node."""
    world = World()
    joined(world, "w1")
    run, other = submitted(world), submitted(world, "r2")
    world.up("r1")
    world.up("r2")
    joined(world, "w1")
    assert told_again(world) == []
    world.scheduler.stop(run)
    world.turn()
    joined(world, "w1")
    assert told_again(world) == ["r1"]
    assert other.state == RUNNING


def told_again(world: World) -> list[str]:
    return [each.run for each in world.ordered if isinstance(each, FinishRun) and each.again]
