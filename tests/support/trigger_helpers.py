"""What the trigger tests share: feeding a trigger as the engine does, and plans for tables."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from artos.buffer.model_block import ObjectSpec
from artos.protocol.invocations import Claim
from artos.runs.plan import Plan
from artos.specs.keys import ArraySpec, DataKey
from artos.specs.reference import Reference
from triggers import Firing, Trigger
from triggers.events import Arrived, Committed, Event, Joined, Recheck
from triggers.table import Table
from triggers.wiring import completed

KEYS = ("observations", "rewards")


def fire(trigger: Trigger, event: Event, now: float = 0.0) -> list[Firing]:
    """Every firing of one event, rechecks included, as the engine asks for them."""
    firings: list[Firing] = []
    while (firing := trigger.check(event, now)) is not None:
        firings.append(firing)
        event = Recheck()
        assert len(firings) < 10_000
    return firings


def feed(trigger: Trigger, events: Iterable[Event], now: float = 0.0) -> list[Firing]:
    """Every firing of some events."""
    return [firing for event in events for firing in fire(trigger, event, now)]


def joined(actors: int) -> list[Event]:
    """Actors 0 to ``actors - 1`` become part of the workload."""
    return [Joined(actor) for actor in range(actors)]


def arrived(actor: int, rows: int, version: int = 0, keys: Iterable[str] = KEYS) -> Arrived:
    """``rows`` rows in total of an actor are in the replay buffer."""
    return Arrived(actor, dict.fromkeys(keys, rows), version)


def committed(actor: int, rows: int, version: int = 0, keys: Iterable[str] = KEYS) -> Committed:
    """``rows`` rows in total of an actor are in its cache buffer."""
    return Committed(actor, dict.fromkeys(keys, rows), version)


def rows(claims: Iterable[Claim]) -> list[tuple[int, int]]:
    """Every single row of some claims, as (actor, step)."""
    return [(c.actor, step) for c in claims for step in range(c.start, c.stop)]


def new_plan(table: Table, **changes: object) -> Plan:
    """A completed plan of four actors with rounds of 16 steps, as registration makes one."""
    plan = Plan(
        reference=Reference("tests:workload"), name="test", env="CartPole-v1", seed=1, actors=4,
        envs=2, steps=16, capacity=0, on_full="wait", total_steps=10_000,
        data_keys=(DataKey("observations", (4,)), DataKey("rewards"), DataKey("dones", (), "bool")),
        objects=(ObjectSpec.sized("model_param", [ArraySpec("params", (10,))], 5),),
        layout=(), triggers={},
        methods={"actors": ("sample",), "learner": ("preprocess", "update")},
    )  # fmt: skip
    plan, paced = completed(msgspec.structs.replace(plan, **changes), table)
    table.update(paced)
    return plan
