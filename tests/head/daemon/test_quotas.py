"""Quotas: nobody holds more than theirs, who is beyond waits, and nobody else does."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given, settings
from world_events import QUOTAS, events, happen, restarted
from worlds import World

from artos.protocol.control import RunUp
from artos.protocol.run_state import QUEUED
from head.daemon import status_api
from head.daemon.effects import Finish
from head.daemon.quotas import Quota, Quotas
from head.daemon.run import Run, Seconds
from head.daemon.scheduler import Scheduler


def world_of(**quotas: dict[str, Quota]) -> World:
    return World(scheduler=Scheduler(quotas=Quotas(**quotas)))


def submit(world: World, name: str, user: str, workload: str = "", **setting: object) -> Run:
    run = Run(name, {"workload": workload or name, "settings": setting}, "", user=user)
    world.scheduler.submit(run)
    world.turn()
    return run


def begun(world: World, name: str, user: str, workload: str = "", **setting: object) -> Run:
    run = submit(world, name, user, workload, **setting)
    assert world.up(name)
    return run


def waits_for(world: World, name: str) -> str:
    return world.scheduler.waits.of(world.scheduler.runs[name])


def wants(world: World, name: str) -> int:
    """Slots for which an engine is asked for nodes."""
    return status_api.line(world.scheduler.runs[name], world.scheduler).wants


def all_want(world: World) -> dict[str, int]:
    views = status_api.lines(world.scheduler.runs.values(), world.scheduler)
    return {view.name: view.wants for view in views}


def slots_of(world: World, run: str) -> dict[str, int]:
    return {node: there[run].slots for node, there in world.executors.items() if run in there}


def finishes(world: World) -> list[str]:
    effects = world.scheduler.turn(world.clock.now())
    return [effect.run.name for effect in effects if isinstance(effect, Finish)]


# -- slots -----------------------------------------------------------------------------------------


def test_a_run_beyond_its_users_quota_waits_with_the_reason_and_nobody_behind_it() -> None:
    world = world_of(users={"ann": Quota(slots=4)})
    world.join("w1", slots=8)
    begun(world, "a1", "ann")
    submit(world, "a2", "ann")
    begun(world, "b1", "ben")
    assert slots_of(world, "a1") == {"w1": 4}
    assert world.scheduler.runs["a2"].state == QUEUED
    assert [wants(world, name) for name in ("a1", "a2", "b1")] == [4, 0, 4]
    world.news("b1", actors=2)
    assert wants(world, "b1") == 2, "as many of its actors take part"
    assert waits_for(world, "a2") == "a quota: user ann holds 4 of 4 slots"
    assert slots_of(world, "b1") == {"w1": 8}, "whoever has no quota"
    world.ended("a1", 0)
    assert world.scheduler.runs["a2"].state == "starting", "as soon as it fits"


def test_no_nodes_are_asked_for_beyond_a_quota() -> None:
    """They would be paid for and stay idle."""
    world = world_of(users={"ann": Quota(slots=4)}, workloads={"ppo": Quota(slots=3)})
    world.join("w1", slots=2)
    world.actors = 8
    begun(world, "a1", "ann")
    assert (wants(world, "a1"), all_want(world)) == (4, {"a1": 4})
    begun(world, "a2", "ann", "ppo")
    assert all_want(world) == {"a1": 2, "a2": 2}, "what they have, as nothing is left"
    submit(world, "b1", "ben", actors=5)
    submit(world, "b2", "ben", "ppo", actors=5)
    assert all_want(world) == {"a1": 2, "a2": 2, "b1": 5, "b2": 1}
    world.ended("a2", 0)
    assert all_want(world) == {"a1": 4, "a2": 0, "b1": 5, "b2": 3}


def test_a_run_without_its_labels_takes_the_rest_of_a_quota_from_no_other() -> None:
    world = world_of(users={"ann": Quota(slots=4)})
    for name, where in (("a1", ("gpu",)), ("a2", ())):
        settings = {"settings": {"actors": 8}}
        world.scheduler.submit(Run(name, settings, "", user="ann", where=where))
    assert all_want(world) == {"a1": 0, "a2": 4}


def test_of_two_runs_that_both_fit_one_begins() -> None:
    world = world_of(users={"ann": Quota(slots=1)})
    world.join("w1", slots=8)
    for name in ("a1", "a2", "a3"):
        submit(world, name, "ann")
    world.ended("a1", 0)
    assert [*world.processes] == ["a2"]


def test_who_was_beyond_a_quota_waits_from_when_it_no_longer_is() -> None:
    """Else the time until then would put it before those that could have begun all along."""
    world = world_of(users={"ann": Quota(slots=1)})
    world.join("w1", slots=1)
    for name, user in (("a1", "ann"), ("a2", "ann"), ("b1", "ben")):
        submit(world, name, user)
    world.clock.advance(10)
    world.roster.heard({node.peer: 0.0 for node in world.roster})
    world.ended("a1", 0)
    assert [*world.processes] == ["b1"]
    assert world.scheduler.runs["a2"].waits_since == world.clock.now()
    assert waits_for(world, "a2") == "a slot: 1 runs share 1"


def test_a_run_has_what_its_quota_leaves_and_more_once_others_end() -> None:
    """Its actors take turns on fewer slots meanwhile."""
    world = world_of(users={"ann": Quota(slots=4)})
    world.join("w1", slots=8)
    world.actors = 3
    begun(world, "a1", "ann")
    begun(world, "a2", "ann")
    assert (slots_of(world, "a1"), slots_of(world, "a2")) == ({"w1": 3}, {"w1": 1})
    world.ended("a1", 0)
    assert slots_of(world, "a2") == {"w1": 3}


def test_a_run_is_on_no_more_nodes_than_it_may_have_slots() -> None:
    world = world_of(users={"ann": Quota(slots=3)})
    for name in ("w1", "w2", "w3", "w4"):
        world.join(name, slots=2)
    world.actors = 8
    begun(world, "a1", "ann")
    assert sum(slots_of(world, "a1").values()) == 3
    assert len(slots_of(world, "a1")) <= 3
    gone, *_ = slots_of(world, "a1")
    world.silence(gone)
    assert len(world.places["a1"]) == 8, "they moved"
    held = {node: n for node, n in slots_of(world, "a1").items() if node != gone}
    assert sum(held.values()) == 3


def test_the_last_node_of_a_run_is_replaced_whatever_its_quota() -> None:
    world = world_of(users={"ann": Quota(slots=2)})
    world.join("w1", slots=2)
    begun(world, "a1", "ann")
    world.join("w2", slots=2)
    world.drain("w1")
    assert set(world.places["a1"].values()) == {"w2"}


def test_all_who_are_not_named_have_a_quota_each() -> None:
    world = world_of(users={"*": Quota(slots=1), "ann": Quota(slots=2)})
    world.join("w1", slots=8)
    world.actors = 1
    for name, user in (("a1", "ann"), ("a2", "ann"), ("b1", "ben"), ("c1", "cat")):
        begun(world, name, user)
    submit(world, "b2", "ben")
    assert waits_for(world, "b2") == "a quota: user ben holds 1 of 1 slots"


def test_a_workload_has_a_quota_whoever_runs_it() -> None:
    world = world_of(workloads={"ppo": Quota(slots=1)})
    world.join("w1", slots=8)
    begun(world, "a1", "ann", "ppo")
    submit(world, "b1", "ben", "ppo")
    begun(world, "b2", "ben", "sac")
    assert waits_for(world, "b1") == "a quota: workload ppo holds 1 of 1 slots"


# -- devices and seconds ---------------------------------------------------------------------------


def test_a_run_that_asks_for_a_device_waits_for_one_of_its_users() -> None:
    world = world_of(users={"ann": Quota(devices=1)})
    world.join("w1", slots=8)
    submit(world, "a1", "ann", device="pool")
    submit(world, "a2", "ann", device="cuda:0")
    submit(world, "a3", "ann")
    assert waits_for(world, "a2") == "a quota: user ann holds 1 of 1 devices"
    assert [*world.processes] == ["a1", "a3"]
    world.ended("a1", 0)
    assert [*world.processes] == ["a3", "a2"]


def test_each_learner_on_a_device_counts() -> None:
    """Also those that a run's plan has, and the replicas of a learner, which have one each."""
    world = world_of(users={"ann": Quota(devices=3)})
    world.join("w1", slots=8)
    submit(world, "a1", "ann", device="policy=pool,model=cuda:0,other=cpu")
    submit(world, "a2", "ann", device="policy=pool,model=pool")
    assert waits_for(world, "a2") == "a quota: user ann holds 2 of 3 devices"
    submit(world, "a3", "ann", device="policy=pool")
    submit(world, "a4", "ann", device="policy=cpu")
    assert [*world.processes] == ["a1", "a3", "a4"]
    world.ended("a1", 0)
    assert [*world.processes] == ["a3", "a4", "a2"]
    replicas = msgspec.json.encode({"device": "pool", "beside": [{"device": "cpu"}], "replicas": 2})
    run = world.scheduler.runs["a3"]
    assert world.scheduler.run_up(RunUp("a3", run.epoch, 1, replicas, "code", "tcp://h:1", "", 1))
    assert run.devices == 2
    beside = [{"device": "pool", "replicas": 3}, {"device": "cpu", "replicas": 2}]
    some = msgspec.json.encode({"device": "pool", "beside": beside})
    assert world.scheduler.run_up(RunUp("a3", run.epoch, 1, some, "code", "tcp://h:1", "", 1))
    assert run.devices == 4


def up_with(world: World, name: str, device: str, *others: str) -> None:
    beside = [{"device": each} for each in others]
    plan = msgspec.json.encode({"device": device, "beside": beside})
    up = RunUp(name, world.scheduler.runs[name].epoch, 1, plan, "code", "tcp://h:1", "", 1)
    assert world.scheduler.run_up(up)


def test_a_device_that_no_submission_named_is_found_in_the_plan() -> None:
    """The learner computes already, so the run is told to save and end."""
    world = world_of(users={"ann": Quota(devices=1)})
    world.join("w1", slots=8)
    submit(world, "a1", "ann", device="pool")
    submit(world, "a2", "ann")
    up_with(world, "a1", "pool")
    assert finishes(world) == []
    up_with(world, "a2", "cpu", "cpu", "cuda:0")
    assert finishes(world) == ["a2"]
    assert "submit it with --device" in world.scheduler.runs["a2"].why


def test_a_gpu_that_was_asked_for_and_is_not_there_is_not_held() -> None:
    world = world_of(users={"ann": Quota(devices=1)})
    world.join("w1", slots=8)
    submit(world, "a1", "ann", device="auto")
    up_with(world, "a1", "cpu")
    submit(world, "a2", "ann", device="cuda:0")
    assert world.scheduler.runs["a2"].state == "starting"


def held(cpu: float, device: float = 0.0) -> dict[str, object]:
    return {"usage": {"cpu_seconds_held": cpu, "device_seconds_held": device}}


def test_a_run_that_has_used_up_its_seconds_saves_and_ends_and_others_wait() -> None:
    world = world_of(users={"ann": Quota(cpu_seconds=100)})
    world.join("w1", slots=8)
    begun(world, "a1", "ann")
    world.news("a1", **held(60))
    assert finishes(world) == []
    begun(world, "a2", "ann")
    world.news("a2", **held(40))
    assert finishes(world) == ["a1", "a2"]
    assert finishes(world) == [], "told twice, it would end at once"
    submit(world, "a3", "ann")
    assert waits_for(world, "a3") == "a quota: user ann has held 100 of 100 CPU-seconds"
    world.news("a1", "interrupted", **held(61))
    world.ended("a1", 130)
    run = world.scheduler.runs["a1"]
    assert run.outcome == "interrupted"
    assert run.why.startswith("user ann has held 100 of 100 CPU-seconds: with a larger quota")
    world.ended("a2", 0)
    assert world.scheduler.runs["a2"].why == "", "it was done before it heard"
    assert world.scheduler.runs["a3"].state == QUEUED
    assert world.scheduler.books.spent == {"user ann": Seconds(101.0)}


def test_seconds_of_a_process_that_was_killed_stay_counted_and_those_after_it_count_at_once() -> (
    None
):
    """The next one goes on from a bill that was saved before; what it repeats is held twice."""
    world = world_of(users={"ann": Quota(device_seconds=100)})
    world.join("w1")
    begun(world, "a1", "ann")
    world.news("a1", **held(1, 60))
    world.ended("a1", -9)
    world.up("a1")
    run, books = world.scheduler.runs["a1"], world.scheduler.books
    assert books.spent["user ann"].plus(run.held) == Seconds(1, 60), "until it reports"
    for reported, in_all in ((45, 60), (60, 75), (58, 73), (84, 99)):
        world.news("a1", **held(1, reported))
        assert finishes(world) == []
        assert books.spent["user ann"].plus(run.held) == Seconds(1, in_all)
    world.ended("a1", -9)
    world.up("a1")
    assert books.spent["user ann"].plus(run.held) == Seconds(1, 99)
    world.news("a1", **held(0.5, 80))
    assert finishes(world) == []
    world.news("a1", **held(0.5, 81))
    assert finishes(world) == ["a1"]


# -- a head that was killed ------------------------------------------------------------------------


def test_a_head_that_was_killed_knows_who_holds_what() -> None:
    world = world_of(users={"ann": Quota(slots=4, cpu_seconds=100)})
    world.join("w1", slots=8)
    begun(world, "a1", "ann")
    world.news("a1", **held(70))
    world.ended("a1", 0)
    begun(world, "a2", "ann")
    submit(world, "a3", "ann")
    after = restarted(world)
    assert waits_for(after, "a3") == "a quota: user ann holds 4 of 4 slots"
    assert slots_of(after, "a2") == {"w1": 4}
    assert after.scheduler.books.spent == {"user ann": Seconds(70.0)}


def test_a_smaller_quota_ends_nothing() -> None:
    world = world_of(users={"ann": Quota(slots=4)})
    world.join("w1", slots=8)
    world.actors = 2
    for name in ("a1", "a2"):
        begun(world, name, "ann")
    submit(world, "a3", "ann")
    after = restarted(world, Quotas(users={"ann": Quota(slots=1)}))
    assert slots_of(after, "a1") == slots_of(after, "a2") == {"w1": 1}
    assert waits_for(after, "a3") == "a quota: user ann holds 2 of 1 slots"
    assert finishes(after) == []


# -- whatever happens ------------------------------------------------------------------------------


@settings(max_examples=300)
@given(events())
def test_nobody_is_above_a_quota_and_nobody_within_waits_beside_free_slots(happened) -> None:
    world = World(scheduler=Scheduler(quotas=QUOTAS))
    for number, (event, which) in enumerate(happened):
        world = happen(world, event, which, number)
        world.check()
        check(world)
    effects = world.scheduler.turn(world.clock.now())
    assert effects == [], "a second turn finds nothing to do"
    world = happen(world, "join", 5, 99)
    for _ in range(len(world.scheduler.runs)):
        for name in [*world.processes]:
            world.ended(name, 0)
            check(world)
    assert all(run.over for run in world.scheduler.runs.values()), "each has had its turn"


def check(world: World) -> None:
    slots: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    runs = world.scheduler.runs.values()
    for run in [run for run in runs if run.admitted]:
        there = {node: world.executors.get(node, {}).get(run.name) for node in run.places.values()}
        kept = world.scheduler.books.slots  # by a run whose process is started again
        held = (each.slots if each else kept(run.name, node, 99) for node, each in there.items())
        count = max(1, sum(held))
        for whose, _ in QUOTAS.of(run.user, run.workload):
            slots[whose] += count
            devices[whose] += "device" in run.request["settings"]
    for run in runs:
        for whose, quota in QUOTAS.of(run.user, run.workload):
            assert slots[whose] <= quota.slots
            assert devices[whose] <= (quota.devices or 9)
    free = sum(n.slots - len(world.scheduler.actors_on(n.name)) for n in world.roster if n.usable)
    free -= sum(run.active and not run.places for run in runs)
    for run in [run for run in runs if run.state == QUEUED and not run.admitted]:
        wants = "device" in run.request["settings"]
        assert free <= 0 or any(
            slots[whose] >= quota.slots or (wants and devices[whose] >= (quota.devices or 9))
            for whose, quota in QUOTAS.of(run.user, run.workload)
        )
