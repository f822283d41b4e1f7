"""Every recipe of the paper's Table 3 as a table that is verified and fires as it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from trigger_helpers import arrived, committed, joined, new_plan

from artos.clock import ManualClock
from artos.protocol.invocations import Claim
from triggers import DataKeyTrigger, Firing, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Arrived, Event, Published, Tick
from triggers.table import Table
from triggers.verify.verifier import faults

FIRST, SECOND = ("rewards", "dones"), ("observations",)
ALL = (*FIRST, *SECOND)

# Control logic of the paper → the table that a user writes. Built anew for every test.
RECIPES: dict[str, Callable[[], Table]] = {
    "temporal training": lambda: {
        "learner.update": TimeTrigger(t=5.0),
        "actors.sample": ObjectKeyTrigger(),
    },
    "full batch update": lambda: {
        "learner.update": DataKeyTrigger(ALL, n=4, size=16),
        "actors.sample": ObjectKeyTrigger(),
    },
    "FIFO training": lambda: {
        "learner.update": DataKeyTrigger(ALL, n=1, size=16),
        "actors.sample": ObjectKeyTrigger(),
    },
    "pipeline training": lambda: {
        "transfer": TransferTrigger(keys=(FIRST, SECOND), size=16),
        "learner.preprocess": DataKeyTrigger(FIRST, n=4, size=16),
        "learner.update": DataKeyTrigger(SECOND, n=4, size=16),
        "actors.sample": ObjectKeyTrigger(),
    },
    "on-policy synchronisation": lambda: {
        "learner.update": DataKeyTrigger(ALL, n=4, size=16),
        "actors.sync": ObjectKeyTrigger("model_param"),
        "actors.sample": ObjectKeyTrigger("model_param"),
    },
    "off-policy synchronisation": lambda: {
        "learner.update": DataKeyTrigger(ALL, n=1, size=16),
        "actors.sync": TimeTrigger(t=2.0),
        "actors.sample": ObjectKeyTrigger("model_param"),
    },
    "data transfer": lambda: {
        "transfer": TransferTrigger(keys=ALL, size=16),
        "learner.update": DataKeyTrigger(ALL, n=4, size=16),
        "actors.sample": ObjectKeyTrigger("model_param"),
    },
}


class Node:
    """An engine over a table; a transfer lets rows arrive, as on one machine."""

    def __init__(self, table: Table) -> None:
        self.clock, self.fired = ManualClock(), list[Firing]()
        wrappers = [TriggerWrapper(t, table[t], DirectPasser(self._act)) for t in table]
        self.engine = Engine(wrappers, self.clock)
        self.feed(joined(4))

    def _act(self, firing: Firing) -> None:
        self.fired.append(firing)
        if firing.trigger == "transfer":
            for claim in firing.claims:
                self.engine.feed(Arrived(claim.actor, dict.fromkeys(firing.keys, claim.stop)))

    def feed(self, events: Iterable[Event]) -> list[str]:
        """Targets that fire on these events, in order."""
        before = len(self.fired)
        for event in events:
            self.engine.feed(event)
        return [firing.trigger for firing in self.fired[before:]]

    def wait(self, seconds: float) -> list[str]:
        before = len(self.fired)
        self.clock.advance(seconds)
        self.engine.tick()
        return [firing.trigger for firing in self.fired[before:]]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_passes_the_verifier(name: str) -> None:
    table = RECIPES[name]()
    overwrite = "overwrite" if name == "temporal training" else "wait"
    assert faults(new_plan(table, on_full=overwrite), table) == []


def test_temporal_training() -> None:
    node = Node(RECIPES["temporal training"]())
    assert node.wait(4.9) == []
    assert node.feed([arrived(0, 100, keys=ALL)]) == [], "rows do not matter, time does"
    assert node.wait(0.1) == ["learner.update"]
    assert node.wait(5.0) == ["learner.update"]


def test_full_batch_update() -> None:
    node = Node(RECIPES["full batch update"]())
    assert node.feed(arrived(actor, 16, keys=ALL) for actor in range(3)) == []
    assert node.feed([arrived(3, 16, keys=ALL)]) == ["learner.update"]
    assert node.fired[-1].claims == tuple(Claim(actor, 0, 16) for actor in range(4))


def test_fifo_training() -> None:
    node = Node(RECIPES["FIFO training"]())
    assert node.feed(arrived(actor, 16, keys=ALL) for actor in (2, 0)) == ["learner.update"] * 2
    assert [f.claims for f in node.fired[-2:]] == [(Claim(2, 0, 16),), (Claim(0, 0, 16),)]


def test_pipeline_training() -> None:
    node = Node(RECIPES["pipeline training"]())
    three = [committed(actor, 16, keys=ALL) for actor in range(3)]
    assert node.feed(three) == ["transfer", "transfer"] * 3
    last = node.feed([committed(3, 16, keys=ALL)])
    assert last == ["transfer", "transfer", "learner.preprocess", "learner.update"]
    assert [f.keys for f in node.fired[-4:]] == [FIRST, SECOND, FIRST, SECOND]


def test_actor_invocation_and_on_policy_synchronisation() -> None:
    node = Node(RECIPES["on-policy synchronisation"]())
    assert node.feed([Published("model_param", 0)]) == ["actors.sync", "actors.sample"]
    assert all(f.actors is None for f in node.fired)


def test_off_policy_synchronisation() -> None:
    node = Node(RECIPES["off-policy synchronisation"]())
    assert node.feed([Published("model_param", 0)]) == ["actors.sample"]
    assert node.wait(2.0) == ["actors.sync"]
    assert node.feed([Tick()]) == []


def test_data_transfer() -> None:
    node = Node(RECIPES["data transfer"]())
    assert node.feed([committed(1, 15, keys=ALL)]) == []
    assert node.feed([committed(1, 16, keys=ALL)]) == ["transfer"]
    assert node.fired[-1].keys == ALL
