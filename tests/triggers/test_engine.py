"""Engine and wrapper: order, firing ids, ticks, and work that does not grow with actors."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from trigger_helpers import KEYS, arrived, committed, joined

from artos.clock import ManualClock
from artos.errors import EndlessFiring, TriggerFailed
from artos.protocol.invocations import Claim
from triggers import (
    DataKeyTrigger,
    Firing,
    ObjectKeyTrigger,
    TimeTrigger,
    TransferTrigger,
    Trigger,
    engine,
)  # fmt: skip
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Arrived, Committed, Event, Joined, Published, Recheck, Tick, Ungranted
from triggers.table import Table


class Stage:
    """An engine over a table whose firings are kept in order, on a clock set by hand."""

    def __init__(self, table: Table) -> None:
        self.clock, self.log, self.fired = ManualClock(), list[str](), list[Firing]()
        wrappers = [TriggerWrapper(t, table[t], DirectPasser(self.act)) for t in table]
        self.engine = Engine(wrappers, self.clock, self._record)

    def _record(self, now: float, firing: Firing) -> None:
        self.log.append(f"record {firing.number} at {now:g}")

    def act(self, firing: Firing) -> None:
        self.log.append(f"{firing.trigger} {firing.number}")
        self.fired.append(firing)

    @property
    def order(self) -> list[str]:
        return [firing.trigger for firing in self.fired]


def test_the_wrapper_checks_adds_the_id_and_passes_on() -> None:
    """Paper Figure 10."""
    passed: list[Firing] = []
    wrapper = TriggerWrapper("learner.update", ObjectKeyTrigger(), DirectPasser(passed.append))

    def stamp(trigger: str, firing: Firing) -> Firing:
        return Firing(trigger=trigger, number=7, version=firing.version)

    assert wrapper.check(Tick(), 0.0, stamp) is None
    assert passed == []
    returned = wrapper.check(Published("model_param", 3), 0.0, stamp)
    assert passed == [returned] == [Firing(trigger="learner.update", number=7, version=3)]
    assert "learner.update" in repr(wrapper)


def test_table_order_and_firing_ids_and_record_before_passing_on() -> None:
    stage = Stage({"actors.sync": ObjectKeyTrigger(), "actors.sample": ObjectKeyTrigger()})
    assert stage.engine.feed(Published("model_param", 0)) == 2
    stage.clock.advance(1.5)
    assert stage.engine.feed(Published("model_param", 1)) == 2
    assert stage.log == [
        "record 1 at 0", "actors.sync 1", "record 2 at 0", "actors.sample 2",
        "record 3 at 1.5", "actors.sync 3", "record 4 at 1.5", "actors.sample 4",
    ]  # fmt: skip


def test_several_firings_on_one_event() -> None:
    stage = Stage({"learner.update": DataKeyTrigger(KEYS, n=1, size=1)})
    stage.engine.feed(Joined(0))
    assert stage.engine.feed(arrived(0, 5)) == 5
    assert [f.claims for f in stage.fired] == [(Claim(0, i, i + 1),) for i in range(5)]


def test_an_event_caused_by_a_firing_comes_after_the_present_one() -> None:
    """Dual stage: preprocessing fires before the update, though the transfer ships both at once."""
    first, second = ("rewards",), ("observations",)
    stage = Stage({})

    def ship(firing: Firing) -> None:
        stage.act(firing)
        arrival = Arrived(0, dict.fromkeys(firing.keys, firing.claims[0].stop))
        assert stage.engine.feed(arrival) == 0

    stage.engine.wrappers += [
        TriggerWrapper("transfer", TransferTrigger((first, second), size=2), DirectPasser(ship)),
        TriggerWrapper("pre", DataKeyTrigger(first, n=1, size=2), DirectPasser(stage.act)),
        TriggerWrapper("update", DataKeyTrigger(second, n=1, size=2), DirectPasser(stage.act)),
    ]
    stage.engine.feed(Joined(0))
    assert stage.engine.feed(committed(0, 4)) == 8
    assert stage.order == ["transfer"] * 4 + ["pre", "update"] * 2


def test_an_engine_goes_on_after_a_passer_raised() -> None:
    stage = Stage({})

    def refuse(firing: Firing) -> None:
        if firing.version == 0:
            raise OSError("gone")
        stage.act(firing)

    stage.engine.wrappers.append(TriggerWrapper("t", ObjectKeyTrigger(), DirectPasser(refuse)))
    with pytest.raises(OSError, match="gone"):
        stage.engine.feed(Published("model_param", 0))
    assert stage.engine.feed(Published("model_param", 1)) == 1
    assert stage.order == ["t"]


def test_ticks_come_when_due_and_not_before() -> None:
    stage = Stage({"learner.update": TimeTrigger(2.0), "actors.sync": TimeTrigger(5.0)})
    assert stage.engine.due() is None
    assert stage.engine.tick() == 0
    stage.engine.feed(Joined(0))
    assert stage.engine.due() == 2.0
    stage.clock.advance(1.0)
    assert stage.engine.tick() == 0
    stage.clock.advance(1.0)
    assert stage.engine.tick() == 1
    stage.clock.advance(3.0)
    assert stage.engine.tick() == 2
    assert stage.order == ["learner.update", "learner.update", "actors.sync"]
    assert stage.engine.due() == 7.0


@dataclass
class Insatiable(Trigger):
    """Fires on an event and on so many rechecks; a faulty trigger would do so for ever."""

    rechecks: int
    asked: list[Event] = field(init=False, default_factory=list)

    def check(self, event: Event, now: float) -> Firing | None:
        self.asked.append(event)
        return Firing() if len(self.asked) <= 1 + self.rechecks else None


@pytest.mark.parametrize(("rechecks", "ends"), [(0, True), (1, True), (2, False), (9, False)])
def test_a_trigger_that_never_stops_firing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, rechecks: int, ends: bool
) -> None:
    monkeypatch.setattr(engine, "_MOST_PER_EVENT", 3)
    trigger = Insatiable(rechecks)
    stage = Stage({"learner.update": trigger})
    if ends:
        assert stage.engine.feed(Tick()) == 1 + rechecks
        assert trigger.asked == [Tick(), *[Recheck()] * (1 + rechecks)]
        return
    words = r"learner.update.*Insatiable.*must return None on a Recheck"
    with pytest.raises(EndlessFiring, match=words) as caught:
        stage.engine.feed(Tick())
    assert caught.value.times == 3


@dataclass
class Insisting(Trigger):
    """Asks for a round again, at once, whenever it is not granted."""

    def check(self, event: Event, now: float) -> Firing | None:
        return None if isinstance(event, Recheck) else Firing(actors=(0,))


def test_neither_is_one_that_insists_on_what_is_not_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_MOST_PER_EVENT", 5)

    def refuse(firing: Firing) -> None:
        insisted.feed(Ungranted(firing.trigger, 0))

    wrapper = TriggerWrapper("actors.sample", Insisting(), DirectPasser(refuse))
    insisted = Engine([wrapper], ManualClock())
    with pytest.raises(EndlessFiring, match=r"Insisting.*fired 5 times.*None .*on an Ungranted"):
        insisted.feed(Tick())


@dataclass
class Faulty(Trigger):
    """Divides by zero, or returns what is no firing."""

    returned: Any = None

    def check(self, event: Event, now: float) -> Any:
        return self.returned if self.returned is not None else 1 / 0


@pytest.mark.parametrize(
    ("returned", "why"),
    [(None, r"its traceback:\n(.|\n)*1 / 0(.|\n)*division by zero"),
     (True, "it returned True: let check return a Firing, or None")],
)  # fmt: skip
def test_a_trigger_that_fails_is_named_with_its_line_of_the_table(returned: Any, why: str) -> None:
    stage = Stage({"learner.update": Faulty(returned)})
    line = r"triggers\['learner.update'\], which is Faulty.*, cannot be asked about Tick\(\): "
    with pytest.raises(TriggerFailed, match=line + why) as caught:
        stage.engine.feed(Tick())
    assert caught.value.target == "learner.update"


def test_a_trigger_that_cannot_say_when_it_is_due_is_named_too() -> None:
    class Clockless(Faulty):
        def due(self) -> float | None:
            return 1 / 0

    stage = Stage({"learner.update": Clockless(None)})
    line = r"triggers\['learner.update'\], .* when it is due: its traceback:\n(.|\n)*1 / 0"
    for asks in (stage.engine.due, stage.engine.tick, stage.engine.clocks):
        with pytest.raises(TriggerFailed, match=line):
            asks()


# -- O(1) per event ----------------------------------------------------------------------------


def calls_of(stage: Stage, event: Event) -> int:
    """Function calls, Python's and C's, that one event costs."""
    calls = 0

    def count(frame: object, kind: str, argument: object) -> None:
        nonlocal calls
        calls += kind in ("call", "c_call")

    gc.disable()  # its callbacks would be counted, whenever they happen to come
    sys.setprofile(count)
    try:
        stage.engine.feed(event)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def busy(actors: int) -> Stage:
    """Every kind of trigger, with as many actors and all but one of them waiting."""
    stage = Stage({
        "transfer": TransferTrigger(KEYS, size=4),
        "learner.update": DataKeyTrigger(KEYS, n=None, size=4, max_lag=1),
        "learner.fifo": DataKeyTrigger(KEYS, n=1, size=4, max_lag=1),
        "learner.timed": DataKeyTrigger(KEYS, n=1, size=4) & TimeTrigger(60.0),
        "actors.sync": ObjectKeyTrigger() | TimeTrigger(60.0),
        "actors.sample": ObjectKeyTrigger(),
    })  # fmt: skip
    for event in [*joined(actors), *(arrived(actor, 2) for actor in range(actors))]:
        stage.engine.feed(event)
    for actor in range(actors - 1):
        stage.engine.feed(arrived(actor, 4))
        stage.engine.feed(committed(actor, 4))
    return stage


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(arrived(5, 6), id="rows that do not suffice"),
        pytest.param(arrived(5, 8), id="rows that fire FIFO"),
        pytest.param(committed(5, 8), id="rows that ship"),
        pytest.param(Published("model_param", 1), id="a version"),
        pytest.param(Joined(5000), id="one more actor"),
        pytest.param(Tick(), id="a tick"),
    ],
)
def test_the_work_per_event_does_not_grow_with_the_actors(event: Event) -> None:
    few, many = calls_of(busy(10), event), calls_of(busy(1000), event)
    assert few > 0
    assert many == few


@dataclass
class Counted:
    """Stands in for a firing's queue: counts how many entries are looked at."""

    looked: int = 0


def test_fifo_does_not_look_through_the_queue_of_ready_actors() -> None:
    """What C code does inside one call is not seen above: copying the queue would be."""
    trigger = DataKeyTrigger(KEYS, n=1, size=1)
    counted = Counted()

    class Queue(type(trigger._ready)):  # type: ignore[misc]
        def __iter__(self):  # type: ignore[no-untyped-def]
            for key in super().__iter__():
                counted.looked += 1
                yield key

    trigger._ready = Queue((actor, None) for actor in range(1000))
    for actor in range(1000):
        trigger._members.add(actor)
        trigger._supply(actor).add(dict.fromkeys(KEYS, 1), 0)
    firing = trigger.check(Tick(), 0.0)
    assert firing is not None
    assert firing.claims == (Claim(0, 0, 1),)
    assert counted.looked == 1


def test_committed_and_arrived_are_told_apart() -> None:
    stage = Stage({"transfer": TransferTrigger(KEYS), "learner.update": DataKeyTrigger(KEYS, n=1)})
    stage.engine.feed(Joined(0))
    stage.engine.feed(Committed(0, dict.fromkeys(KEYS, 1)))
    assert stage.order == ["transfer"]
    stage.engine.feed(arrived(0, 1))
    assert stage.order == ["transfer", "learner.update"]
