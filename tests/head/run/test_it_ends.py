"""Whatever its triggers fire, a run ends once its budget is spent or it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from elastic_loop import NOISE, STEPS, Troupe, fifo, troupe
from named import LEARNER

from artos.protocol.invocations import Claim, Done, Invoke
from artos.runs.run_memory import RunMemory
from artos.specs.actor_count import Manual
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger
from triggers.base import Trigger
from triggers.events import Arrived, Event, Firing, Learned, Published, Recheck, Tick
from triggers.table import Table

ENOUGH = 200
"""Things that members do after the end; none of these tables has so much left to do."""


@dataclass
class EachEvent(Trigger):
    def check(self, event: Event, now: float) -> Firing | None:
        return None if isinstance(event, Recheck) else Firing()


@dataclass
class AlwaysDue(Trigger):
    def check(self, event: Event, now: float) -> Firing | None:
        return Firing() if isinstance(event, Tick) else None

    def due(self) -> float:
        return 0.0


@dataclass
class AfterItself(Trigger):
    """Fires when its own invocation is done; the first time with the first version."""

    def check(self, event: Event, now: float) -> Firing | None:
        first = isinstance(event, Published) and event.version == 0
        own = isinstance(event, Learned) and event.trigger == "learner.other"
        return Firing() if first or own else None


@dataclass
class TheSameRows(Trigger):
    """Hands over an actor's first round again whenever the learner is done with something."""

    def check(self, event: Event, now: float) -> Firing | None:
        return Firing(claims=(Claim(0, 0, STEPS),)) if isinstance(event, Learned) else None


ROWS = DataKeyTrigger(("rewards",), n=1, size=STEPS)
TABLES: dict[str, Table] = {
    "versions": {"learner.other": ObjectKeyTrigger("model_param")},
    "each event": {"learner.other": EachEvent()},
    "always due": {"learner.other": AlwaysDue()},
    "a short period": {"learner.other": TimeTrigger(1e-6)},
    "after itself": {"learner.other": AfterItself()},
    "the same rows": {"learner.update": ROWS | TheSameRows()},
    "one another": {"learner.other": EachEvent(), "learner.more": EachEvent()},
    "beside rows": {"learner.update": ROWS | EachEvent()},
    "pulls": {"actors.sync": EachEvent()},
    "pulls by the clock": {"actors.sync": TimeTrigger(1e-6)},
    "pulls always": {"actors.sync": AlwaysDue()},
}


def to_its_end(players: Troupe) -> None:
    """Members do what they are asked for, and time passes."""
    for _ in range(ENOUGH):
        if players.coordinator.finished:
            return
        players.step()
        players.clock.advance(0.01)
        players.coordinator.tick()
    pytest.fail("it never ends")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_once_its_steps_are_spent(name: str, seed: int, tmp_path: Path) -> None:
    with troupe(Manual(2, 2), fifo() | TABLES[name], 6, tmp_path, seed) as players:
        players.begin()
        to_its_end(players)
        assert players.coordinator.ending.why == "total_steps"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_once_it_is_told_to_stop(name: str, seed: int, tmp_path: Path) -> None:
    with troupe(Manual(2, 2), fifo() | TABLES[name], 10**6, tmp_path, seed) as players:
        players.begin()
        for _ in range(20):
            players.step()
        players.coordinator.ending.drain()
        to_its_end(players)


def test_of_what_is_never_done_little_is_kept_for_a_run_that_goes_on(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), fifo() | TABLES["each event"], 6, tmp_path) as players:
        players.begin()
        to_its_end(players)
        for _ in range(9):
            players.coordinator.feed(Tick())
        kept = [each.trigger for each in players.coordinator.withheld]
        assert kept.count("learner.other") <= 2


class Dreamer(Troupe):
    """Its model has a new version with each update, from which it imagines, and learns to act."""

    def __init__(self, node: RunMemory, seed: int) -> None:
        super().__init__(node, seed)
        self.did: list[str] = []

    def _learn(self, call: Invoke) -> Done:
        self.did.append(call.method)
        if call.method == "update":
            return super()._learn(call)
        if call.method == "imagine":
            self.publish_object(NOISE, len(self.did))
        return Done(call.firing, self._node.weights.version)


@pytest.mark.parametrize("seed", range(8))
def test_what_follows_from_the_last_rows_is_done(seed: int, tmp_path: Path) -> None:
    table = fifo() | {
        "learner.imagine": ObjectKeyTrigger("model_param"),
        "learner.act": ObjectKeyTrigger(NOISE),
    }
    with troupe(Manual(2, 2), table, 6, tmp_path, seed, kind=Dreamer) as players:
        assert isinstance(players, Dreamer)
        players.begin()
        to_its_end(players)
        did = [*reversed(players.did)]
        assert did.count("update") >= 6
        assert did.index("act") < did.index("imagine") < did.index("update")


@dataclass
class EachArrival(Trigger):
    def check(self, event: Event, now: float) -> Firing | None:
        return Firing() if isinstance(event, Arrived) else None


def test_rows_that_come_last_are_followed_though_nobody_has_anything_to_answer(
    tmp_path: Path,
) -> None:
    """From other nodes rows may come after the answer of who wrote them."""
    table = fifo() | {"learner.other": EachArrival()}
    with troupe(Manual(1, 1), table, 1, tmp_path) as players:
        players.begin()
        to_its_end(players)
        assert not len(players.coordinator.invocations)
        players.coordinator.feed(Arrived(0, {"rewards": STEPS}))
        assert players.coordinator.invocations.count(LEARNER, "learner.other") == 1
