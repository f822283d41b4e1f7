"""The trigger of servers, and the engine that checks it in a server's process."""

from __future__ import annotations

from typing import Any

import pytest
from trigger_helpers import KEYS, feed, fire, new_plan

from artos.clock import ManualClock
from artos.errors import TriggerFailed
from artos.specs.servers import ServerSpec
from triggers import DataKeyTrigger, ObjectKeyTrigger, RequestTrigger
from triggers.base import Requested
from triggers.events import Tick
from triggers.gathering import Gathering
from triggers.table import Table
from triggers.verify.verifier import faults


def test_it_waits_for_so_many_and_fires_for_all() -> None:
    trigger = RequestTrigger(3, 1.0)
    assert feed(trigger, [Requested(0), Requested(1)]) == []
    assert len(fire(trigger, Requested(2))) == 1
    assert feed(trigger, [Requested(0), Requested(2)]) == [], "they count anew"


def test_the_first_does_not_wait_for_longer_than_that() -> None:
    trigger = RequestTrigger(3, 0.5)
    assert trigger.due() is None
    assert trigger.check(Tick(), 9.0) is None, "nobody has asked"
    assert trigger.check(Requested(0), 10.0) is None
    assert trigger.check(Requested(1), 10.4) is None
    assert trigger.due() == 10.5
    assert trigger.check(Tick(), 10.5) is not None
    assert trigger.due() is None


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (RequestTrigger(0), "n must be a whole number of at least 1"),
        (RequestTrigger(2), "waits for n=2 requests however long that takes"),
        (RequestTrigger(2, -1), "wait must be a number of seconds"),
        (RequestTrigger(2, float("inf")), "wait must be a number of seconds"),
        (RequestTrigger(13, 0.1), "waits for n=13 requests, but there are never more than 12 (4"),
    ],
)
def test_what_would_never_fire_is_refused(made: RequestTrigger, why: str) -> None:
    assert why in " ".join(found({"judge.answer": made}))


def found(more: Table) -> list[str]:
    table: Table = {
        "learner.update": DataKeyTrigger(KEYS, n=4, size=16),
        "actors.sample": ObjectKeyTrigger("model_param"),
        **more,
    }
    plan = new_plan(table, servers=(ServerSpec("judge", (), (), 8, 3),))
    assert "judge.answer" in table
    return faults(plan, table)


def _none(name: str) -> Any:
    raise KeyError(name)


def test_it_fires_servers_alone_and_these_have_a_line_in_any_case() -> None:
    assert found({}) == []
    assert found({"judge.answer": RequestTrigger(12, 0.1)}) == []
    (fault,) = found({"learner.answer": RequestTrigger()})
    assert "answer is what servers do" in fault
    (fault,) = found({"jugde.answer": RequestTrigger()})
    assert "did you mean judge?" in fault
    (fault,) = found({"judge.think": RequestTrigger()})
    assert "the judge has no method 'think'" in fault
    (fault, *_) = found({"actors.sync": RequestTrigger()})
    assert "a RequestTrigger fires a server" in fault


def test_a_server_gathers_what_its_trigger_says() -> None:
    clock = ManualClock()
    gathering = Gathering("judge.answer", RequestTrigger(2, 0.5).encode(), _none, clock)
    assert gathering.patience(60.0) == 60.0
    assert not gathering.take()
    gathering.asked(3, 0)
    assert not gathering.take()
    assert gathering.patience(60.0) == 0.5
    clock.advance(0.5)
    assert gathering.take(), "in time"
    assert not gathering.take(), "once"
    gathering.asked(3, 0)
    gathering.asked(0, 1)
    assert gathering.take(), "two of them"


def test_a_trigger_that_raises_is_named() -> None:
    gathering = Gathering("judge.answer", RequestTrigger(2, 0.5).encode(), _none, ManualClock())
    gathering._engine.wrappers[0].trigger.n = "two"  # type: ignore[attr-defined]  # as a user's may
    with pytest.raises(TriggerFailed, match=r"judge\.answer"):
        gathering.asked(0, 0)
