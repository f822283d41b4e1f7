"""One node begins no more runs than machines can have, all no more than the head carries."""

from __future__ import annotations

import random

import psutil
import pytest
from worlds import VERSION, World

from artos.errors import Refused
from artos.pool.records import MEMBERS
from artos.protocol.control import MOST_SHARING, MOST_SLOTS, PROTOCOL, Hello, Leave
from head.daemon import options
from head.daemon.options import HeadOptions, head_options
from head.daemon.run import Run
from head.daemon.run_queue import RunQueue
from head.daemon.scheduler import Scheduler


@pytest.mark.parametrize(
    ("slots", "runs", "words"),
    [(65_536, 1, "65536 slots"), (MOST_SLOTS + 1, 1, "at most 4096"), (2, 65_536, "65536 runs"),
     (51, 2, "at most 100 runs share slots")],
)  # fmt: skip
def test_a_node_is_not_believed_what_no_machine_has(
    slots: int, runs: int, words: str, world: World
) -> None:
    hello = Hello("w1", PROTOCOL, VERSION, slots, runs_per_slot=runs)
    with pytest.raises(Refused, match=words):
        world.roster.admit("w1/a", hello)
    assert [*world.roster] == []


def test_the_largest_machines_are_welcome(world: World) -> None:
    assert world.join("w1", MOST_SLOTS).usable
    assert world.join("w2", MOST_SHARING // 2, runs_per_slot=2).usable
    assert MOST_SHARING < MEMBERS, "others are in the pool of a machine, too"


def test_a_head_carries_so_many_runs_at_once() -> None:
    world = World(scheduler=Scheduler(at_once=3))
    world.join("w1", slots=MOST_SLOTS)
    for n in range(100):
        world.submit(f"r{n}")
    assert [name for name, *_ in world.began] == ["r0", "r1", "r2"]
    waits = world.scheduler.waits.of(world.scheduler.runs["r50"])
    assert waits == "the head, which carries 3 runs at once (--runs-at-once)"
    world.up("r1")
    world.ended("r1", -9)
    assert world.began[-1][:2] == ("r1", 2), "whoever was killed has its place still"
    world.ended("r2", 0)
    assert world.began[-1][0] == "r3"
    assert len(world.processes) == 3


def test_how_many_follows_from_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    there = HeadOptions("tcp://h:1", tmp_path)
    most = psutil.virtual_memory().total // (512 << 20)
    monkeypatch.setattr(options.os, "cpu_count", lambda: 10_000)
    monkeypatch.setattr(options, "memory_left", lambda: None)
    assert there.at_once == max(2, most)
    monkeypatch.setattr(options, "memory_left", lambda: 5 * (512 << 20))
    assert there.at_once == min(5, max(2, most))
    monkeypatch.setattr(options, "memory_left", lambda: 1)
    assert there.at_once == 2
    assert HeadOptions("tcp://h:1", tmp_path, runs_at_once=7).at_once == 7
    with pytest.raises(Refused, match="runs_at_once = 0: must be 1 or more"):
        head_options(None, {"listen": "tcp://h:1", "keys": tmp_path, "runs_at_once": 0})


def test_a_worker_is_told_once_that_it_may_go_when_nothing_is_left_there(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.drain("w1")
    assert leaving(world) == [], "its executor may end its rounds"
    world.executor_ended("w1", "r1", why="")
    assert leaving(world) == [Leave("drained")]
    world.turn()
    world.scheduler.leaves("w1", "drained")
    world.turn()
    assert len(leaving(world)) == 1
    world.join("w1")  # the link was cut: it may not have heard
    assert len(leaving(world)) == 2


def test_who_is_not_drained_is_not_sent_away(world: World) -> None:
    world.join("w1")
    world.begin("r1")
    world.ended("r1", 0)
    assert leaving(world) == []


def leaving(world: World) -> list[Leave]:
    return [message for message in world.ordered if isinstance(message, Leave)]


def test_who_is_before_whom_is_as_it_would_be_counted_for_each_alone() -> None:
    rng, queue = random.Random(3), RunQueue()
    runs = [
        Run(f"r{n}", {"workload": f"w{rng.randrange(5)}",
                      "settings": {"priority": rng.randrange(3)}}, "x", waits_since=1.0 + n)
        for n in range(60)
    ]  # fmt: skip
    queue.see(runs, (), 100.0)
    begun = queue.next(7)
    queue.see((), (), 130.0)
    waiting = [run for run in runs if run.name not in begun]
    for run in waiting:
        equals = [each for each in waiting if each.priority == run.priority]
        held = queue._virtual(run)
        own = [each for each in equals if each.charged_to == run.charged_to]
        counts = (
            sum(each.priority > run.priority for each in waiting),
            sum(
                queue._virtual(each) < held for each in equals if each.charged_to != run.charged_to
            ),
            own.index(run),
        )
        said = {int(part.split()[0]) for part in queue.words(run).split(", ") if part}
        assert said == {count for count in counts if count}
