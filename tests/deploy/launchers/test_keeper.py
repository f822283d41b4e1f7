"""The keeper does what is decided, and leaves an engine alone for a while that did not do it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import pytest
from helpers import PATIENCE

from artos.clock import ManualClock
from artos.protocol.views import ClusterView, NodeView, RunView
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.keeper import Keeper
from deploy.launchers.launcher import EngineFailed, Here, Unit


class Memory:
    """An engine that has as many machines as ``room`` says, and remembers what it was asked."""

    inside: ClassVar[bool] = False
    in_order: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        self.room, self.asked = 2, list[object]()
        self.taken: dict[int, float] = {}
        self.looks = 0
        self._units = {HEAD: Unit(HEAD, "head")}

    @staticmethod
    def faults(cluster: Cluster) -> list[str]:
        return []

    def plan(self) -> Mapping[str, str]:
        return {}

    def start(self, indexes: Sequence[int]) -> None:
        self.asked.append(("start", *indexes))
        if not self.room:
            raise EngineFailed("memory", "start it", "the quota is used up")
        for index in indexes:
            self.room -= 1
            self._units[index] = Unit(index, f"u{index}", "runs" if self.room >= 0 else "waits")

    def units(self) -> list[Unit]:
        self.looks += 1
        return [*self._units.values()]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        self.asked.append(("stop", unit.index, now))

    def notices(self) -> Mapping[int, float]:
        return self.taken

    def clear(self) -> None:
        """Nothing is left."""

    def here(self) -> Here:
        return Here()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine() -> Memory:
    return Memory(CLUSTER)


CLUSTER = Cluster(name="lab", engine="memory", folder="/none", least=1, most=4)


class Head:
    """A head as it is now, and what it is told."""

    def __init__(self, *nodes: NodeView, wants: int = 0) -> None:
        runs = (RunView(name="r", state="running", wants=wants),)
        self._view, self.told = ClusterView(nodes=nodes, runs=runs), list[tuple[str, float]]()

    def cluster(self) -> ClusterView:
        return self._view

    def reclaim(self, node: str, seconds: float) -> None:
        self.told.append((node, seconds))


def wanting(slots: int) -> Head:
    return Head(wants=slots)


def test_it_asks_for_what_is_missing_and_not_again(engine: Memory, clock: ManualClock) -> None:
    keeper = Keeper(CLUSTER, engine, clock=clock)
    keeper.turn(wanting(3))
    keeper.turn(wanting(3))
    assert engine.asked == [("start", 0, 1, 2)]
    keeper.turn(wanting(2))
    assert engine.asked[1:] == [("stop", 2, True)], "it had not begun"


def test_an_engine_that_refuses_is_asked_again_later(engine: Memory, clock: ManualClock) -> None:
    keeper = Keeper(CLUSTER, engine, clock=clock)
    engine.room = 0
    with pytest.raises(EngineFailed, match="the quota is used up"):
        keeper.turn(wanting(1))
    keeper.turn(wanting(1))
    assert engine.asked == [("start", 0)], "it rests"
    engine.room = 1
    clock.advance(60.0)
    keeper.turn(wanting(1))
    assert engine.asked == [("start", 0), ("start", 0)]
    assert {unit.index for unit in engine.units()} == {HEAD, 0}


def joined(name: str) -> NodeView:
    return NodeView(name=name, alive=True, slots=1)


def test_an_engine_is_asked_seldom_as_long_as_the_head_sees_all_workers(
    engine: Memory, clock: ManualClock
) -> None:
    keeper, both = Keeper(CLUSTER, engine, clock=clock), (joined("lab-0"), joined("lab-1"))
    keeper.turn(wanting(2))
    assert engine.asked == [("start", 0, 1)]
    engine.room = 4

    def looks(head: Head) -> int:
        """How often it is asked in five turns."""
        before = engine.looks
        for _ in range(5):
            clock.advance(3.0)
            keeper.turn(head)
        return engine.looks - before

    assert looks(Head(joined("lab-0"), wants=2)) == 5, "one has not joined"
    clock.advance(60.0)  # until then one that has just been started may turn out not to live
    assert looks(Head(*both, wants=2)) == 1
    engine.taken = {1: 20.0}
    assert looks(Head(*both, wants=2)) == 5, "one is taken back"
    engine.taken = {}
    assert looks(Head(*both, wants=1)) == 5, "one is more than are of use"


def test_a_change_that_the_head_sees_has_the_engine_asked_at_once(
    engine: Memory, clock: ManualClock
) -> None:
    keeper = Keeper(CLUSTER, engine, clock=clock)
    keeper.turn(wanting(2))
    engine.room = 4
    both = (joined("lab-0"), joined("lab-1"))
    for _ in range(20):
        clock.advance(3.0)
        keeper.turn(Head(*both, wants=2))
    before = engine.looks
    for head in (Head(*both, wants=2), Head(*both, wants=3)):
        keeper.turn(head)
    assert engine.looks == before + 1
    assert engine.asked[-1] == ("start", 2)


def test_a_number_of_workers_that_is_anothers_to_change_is_left_alone(engine: Memory) -> None:
    keeper = Keeper(msgspec.structs.replace(CLUSTER, scaled=False), engine)
    turning = threading.Thread(target=keeper.run, args=(threading.Event(),), daemon=True)
    turning.start()
    turning.join(PATIENCE)
    assert not turning.is_alive()


def node(name: str, *, alive: bool) -> NodeView:
    return NodeView(name=name, alive=alive, slots=1, leaves="told to" if alive else "")


def test_a_worker_hears_how_long_it_still_has(engine: Memory, clock: ManualClock) -> None:
    """Also one that leaves already: its engine may give it less time than it takes."""
    keeper = Keeper(CLUSTER, engine, clock=clock)
    keeper.turn(wanting(2))
    engine.room, engine.taken = 4, {0: 20.0, 1: 20.0}
    leaving = Head(node("lab-0", alive=True), node("lab-1", alive=False))
    for _ in range(2):
        keeper.turn(leaving)
    assert leaving.told == [("lab-0", 18.0)] * 2, "the other one has not joined, or is gone"
    assert ("stop", 1, False) in engine.asked


def test_a_notice_is_heard_also_while_the_engine_rests(engine: Memory, clock: ManualClock) -> None:
    keeper = Keeper(CLUSTER, engine, clock=clock)
    engine.room, engine.taken = 0, {0: 20.0}
    head = Head(node("lab-0", alive=True), wants=2)
    with pytest.raises(EngineFailed, match="the quota is used up"):
        keeper.turn(head)
    engine.taken = {0: 10.0}
    clock.advance(3.0)
    keeper.turn(head)
    assert head.told == [("lab-0", 18.0), ("lab-0", 9.0)]
    assert len(engine.asked) == 1, "for all else it rests"


def test_that_the_machine_of_the_head_is_taken_back_is_said_once(
    engine: Memory, clock: ManualClock, logged: list[str]
) -> None:
    keeper = Keeper(CLUSTER, engine, clock=clock)
    said = []
    for taken in ({}, {HEAD: 60.4}, {HEAD: 57.4}, {}, {HEAD: 30.0}):
        engine.taken = taken
        keeper.turn(head := wanting(1))
        assert head.told == [], "it is no worker, which could leave"
        said.append(sum("the machine of the head is taken back" in line for line in logged))
    assert said == [0, 1, 1, 1, 2]
    assert any("taken back in 60 s: the head is started elsewhere then" in each for each in logged)
