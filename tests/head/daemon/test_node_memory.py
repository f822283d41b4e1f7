"""Shared memory of worker nodes: actors are placed where there is room for their blocks."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
from worlds import World

from artos.protocol.control import Load, RunUp
from head.daemon.roster import Room, place, relieved
from head.daemon.run import Run
from head.daemon.status_api import everything

MB = 2**20


class Large(World):
    """Its runs take 2 MiB on a node, and 4 for each actor there."""

    def run_up(self, run: Run) -> RunUp:
        return msgspec.structs.replace(
            super().run_up(run), executor_bytes=2 * MB, actor_bytes=4 * MB
        )


def counts(world: World, run: str) -> Counter[str]:
    return Counter(world.places[run].values())


def test_actors_go_where_there_is_memory_for_them() -> None:
    world = Large()
    world.join("w1", slots=4, shm_bytes=7 * MB)
    world.join("w2", slots=1, shm_bytes=20 * MB)
    world.begin("r1")
    assert counts(world, "r1") == {"w1": 1, "w2": 3}


def test_those_that_fit_nowhere_wait_and_are_told_why() -> None:
    world = Large()
    world.join("w1", slots=4, shm_bytes=11 * MB)
    world.begin("r1")
    assert counts(world, "r1") == {"w1": 2}
    run = world.scheduler.runs["r1"]
    waits = world.scheduler.waits.of(run)
    assert waits == "a worker with 6 MiB of shared memory left for an actor"
    seen = everything(world.scheduler, world.roster, 0.0)
    assert seen.nodes[0].shm_bytes == 11 * MB
    assert (seen.runs[0].lacks_memory, seen.runs[0].actor_bytes) == (2, 4 * MB)
    world.join("w2", slots=4)
    assert counts(world, "r1") == {"w1": 2, "w2": 2}
    assert not world.scheduler.waits.of(run)
    assert world.scheduler.waits.for_memory(run) == 0


def test_memory_of_a_run_that_is_over_goes_to_the_next() -> None:
    world = Large()
    world.join("w1", slots=8, shm_bytes=20 * MB)
    world.begin("r1", "r2")
    assert counts(world, "r1") == {"w1": 4}
    assert counts(world, "r2") == {}
    world.ended("r1", 0)
    assert counts(world, "r2") == {"w1": 4}


def test_a_run_that_needs_less_begins_beside_one_that_waits_for_memory() -> None:
    world = Large()
    world.join("w1", slots=8, shm_bytes=24 * MB)
    world.begin("r1", "r2")
    world.actors = 1
    world.begin("r3")
    assert counts(world, "r2") == {"w1": 1}
    assert counts(world, "r3") == {}
    world.ended("r2", 0)
    assert counts(world, "r3") == {"w1": 1}


def test_a_restarted_head_knows_the_memory_of_nodes() -> None:
    world = Large()
    world.join("w1", shm_bytes=7 * MB)
    assert [node.shm_bytes for node in world.saved().nodes] == [7 * MB]


def test_an_executor_that_found_no_room_is_tried_again_when_another_has_left() -> None:
    world = World()  # another program took the memory, so nobody counted it
    world.join("w1", slots=4)
    world.begin("r1", "r2")
    for _ in range(3):
        world.executor_ended("w1", "r2", why="no room in /dev/shm")
    assert "r2" not in world.executors["w1"]
    world.executor_ended("w1", "r1", why="")
    assert "r2" in world.executors["w1"]


def test_who_finds_less_memory_than_was_counted_on_goes_elsewhere() -> None:
    world = Large()
    node = world.join("w1", slots=4, shm_bytes=18 * MB)
    world.begin("r1")
    assert counts(world, "r1") == {"w1": 4}
    world.roster.load("w1.a", Load(shm_bytes=16 * MB))
    world.turn()
    assert counts(world, "r1") == {"w1": 4}, "those that are there stay"
    world.executor_ended("w1", "r1", why="no room in /dev/shm")
    assert counts(world, "r1") == {"w1": 3}
    assert node.shm_bytes == 16 * MB
    world.join("w2", slots=1)
    assert counts(world, "r1") == {"w1": 3, "w2": 1}


def test_no_node_has_more_actors_than_it_has_memory_for() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        rooms = [
            Room(f"w{i}", chance.randint(1, 4), chance.randint(0, 3), chance.randint(0, 4))
            for i in range(chance.randint(1, 5))
        ]
        actors, policy = chance.randint(1, 12), chance.choice(["spread", "pack"])
        for places in (there := place(actors, {}, rooms, policy), relieved(there, rooms)):
            found = Counter(places.values())
            assert all(found[room.name] <= room.fits for room in rooms)
            assert len(places) == min(actors, sum(int(room.fits) for room in rooms))
