"""The trigger that has actors restored, and its place in the table."""

from __future__ import annotations

import msgspec
import pytest
from trigger_helpers import KEYS, fire, new_plan

from artos.specs.elastic import Elastic
from triggers import DataKeyTrigger, ObjectKeyTrigger, PrewarmTrigger, TimeTrigger, Trigger
from triggers.events import Tick
from triggers.explain import explain
from triggers.prewarm import PREWARM
from triggers.table import Table, decode_table
from triggers.targets import parsed
from triggers.verify.verifier import faults
from triggers.wiring import completed

TABLE: Table = {
    "learner.update": DataKeyTrigger(KEYS, n=4, size=16),
    "actors.sample": ObjectKeyTrigger("model_param"),
}


def test_it_fires_once_an_update_and_so_long_after_its_beginning() -> None:
    trigger = PrewarmTrigger()
    assert trigger.due() is None
    assert not fire(trigger, Tick(), 99.0)
    trigger.began(100.0, 3.0)
    assert trigger.due() == 103.0
    assert not fire(trigger, Tick(), 102.9)
    assert len(fire(trigger, Tick(), 103.0)) == 1
    assert trigger.due() is None
    assert not fire(trigger, Tick(), 200.0)
    trigger.began(300.0, 1.0)
    assert len(fire(trigger, Tick(), 400.0)) == 1


def test_it_does_not_fire_for_an_update_that_is_over() -> None:
    trigger = PrewarmTrigger()
    trigger.began(100.0, 3.0)
    trigger.ended()
    assert trigger.due() is None
    assert not fire(trigger, Tick(), 103.0)


@pytest.mark.parametrize(
    ("elastic", "there"),
    [
        (Elastic(park="checkpoint"), True),
        (Elastic(park="checkpoint", prewarm="window"), True),
        (Elastic(park="checkpoint", prewarm="off"), False),
        (Elastic(), False),
        (Elastic(park="never"), False),
    ],
)
def test_it_is_in_the_table_where_actors_wait_as_images(elastic: Elastic, there: bool) -> None:
    plan, table = completed(msgspec.structs.replace(new_plan(TABLE), elastic=elastic), TABLE)
    assert (PREWARM in table) is there
    assert (PREWARM in decode_table(plan.triggers, lambda name: None)) is there
    assert faults(plan, table) == []
    assert ("shortly before the next version, as forecast" in explain(plan, table)) is there


def test_a_users_own_trigger_stays() -> None:
    own = TimeTrigger(5.0)
    plan = msgspec.structs.replace(new_plan(TABLE), elastic=Elastic(park="checkpoint"))
    plan, table = completed(plan, TABLE | {PREWARM: own})
    assert table[PREWARM] == own
    assert faults(plan, table) == []


def test_it_asks_for_no_rounds() -> None:
    assert not parsed(PREWARM).samples
    alone: Table = {"learner.update": TABLE["learner.update"], PREWARM: TimeTrigger(1.0)}
    assert "nothing fires sampling" in " ".join(faults(new_plan(alone), alone))


@pytest.mark.parametrize("target", ["actors.sample", "learner.update"])
@pytest.mark.parametrize("trigger", [PrewarmTrigger(), PrewarmTrigger() | TimeTrigger(1.0)])
def test_it_fires_nothing_else(target: str, trigger: Trigger) -> None:
    table = TABLE | {target: trigger}
    assert f"write {PREWARM!r}" in " ".join(faults(new_plan(table), table))


def test_rows_are_no_reason_to_restore() -> None:
    table = TABLE | {PREWARM: DataKeyTrigger(KEYS, n=4, size=16)}
    assert "actors take none" in " ".join(faults(new_plan(table), table))
