"""The keeper does what is decided, and leaves an engine alone for a while that did not do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest

from artos.clock import ManualClock
from artos.protocol.views import ClusterView, RunView
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.keeper import Keeper
from deploy.launchers.launcher import EngineFailed, Here, Unit


class Memory:
    """An engine that has as many machines as ``room`` says, and remembers what it was asked."""

    inside: ClassVar[bool] = False
    in_order: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        self.room, self.asked = 2, list[object]()
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
        return [*self._units.values()]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        self.asked.append(("stop", unit.index, now))

    def notices(self) -> Mapping[int, float]:
        return {}

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


def wanting(slots: int) -> ClusterView:
    return ClusterView(runs=(RunView(name="r", state="running", wants=slots),))


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
