"""What triggers remember goes on in a resumed run, and what they knew before does not fire them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from elastic_loop import NOISE, full_batch, troupe
from named import LEARNER
from test_recorder import recorded
from trigger_helpers import arrived, feed, fire

from artos.runs.checkpoint import read_manifest
from artos.specs.actor_count import Manual
from head.run.saved_triggers import anew, go_on, remembered
from triggers import (
    CountTrigger,
    DataKeyTrigger,
    First,
    ObjectKeyTrigger,
    Once,
    SetTrigger,
    TimeTrigger,
    Trigger,
    UpdateTrigger,
    ValueTrigger,
)
from triggers.events import Event, Firing, Published, Tick
from triggers.table import Table
from triggers.verify.verifier import faults

MODEL = "model_param"


@dataclass
class Above(Trigger):
    """A user's, which fires with every value above a bound, and has two firings for each."""

    above: float
    kept_by_user: tuple[str, ...] = ()
    _left: int = field(init=False, repr=False, default=0)
    _seen: Any = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        self.kept = tuple(self.kept_by_user)

    def check(self, event: Event, now: float) -> Firing | None:
        if isinstance(event, Published) and event.value > (self.above,):
            self._left, self._seen = 2, self._seen + 1
        if not self._left:
            return None
        self._left -= 1
        return Firing()


def resumed(before: Trigger, now: Trigger, target: str = "learner.look") -> Trigger:
    """``now`` in the place of ``before``, in a run that goes on."""
    found, lacks = remembered({target: before})
    assert lacks == []
    go_on({target: now, "learner.other": Once(TimeTrigger(1.0))}, found)
    return now


def published(*versions: int, again: bool = False) -> list[Event]:
    return [Published(MODEL, v, updates=v, value=(9.0,), again=again) for v in versions]


@pytest.mark.parametrize(
    "when",
    [
        lambda: ValueTrigger(MODEL, above=3.0),
        lambda: ObjectKeyTrigger(every=7),
        lambda: UpdateTrigger(7),
        lambda: Above(3.0),
        lambda: Above(3.0) | ObjectKeyTrigger() | UpdateTrigger(7),
        lambda: Once(Above(3.0)),
        lambda: Above(3.0) & CountTrigger(4),
    ],
)
def test_nothing_is_set_because_a_run_goes_on(when: Callable[[], Trigger]) -> None:
    trigger = SetTrigger(when(), (1, 2))
    assert feed(trigger, [*published(7, again=True), Tick(), arrived(0, 4)]) == []


def test_what_comes_later_sets_it() -> None:
    trigger = SetTrigger(Once(Above(3.0)), (1, 2))
    assert len(feed(trigger, [*published(7, again=True), *published(8)])) == 1


def test_it_never_fires_again() -> None:
    first = First(UpdateTrigger(2), 3)
    assert len(feed(first, published(0, 1, 2, 3))) == 2
    again = resumed(first, First(UpdateTrigger(2), 3))
    assert feed(again, published(3, again=True)) == [], "it fired for version 2, and that counts"
    assert [each.version for each in feed(again, published(4, 5, 6))] == [4]


def test_one_that_is_new_begins_with_the_version_that_is_there() -> None:
    assert len(feed(Once(ObjectKeyTrigger()), published(3, again=True))) == 1


def test_every_so_many_versions_are_counted_on() -> None:
    every = ObjectKeyTrigger(every=10)
    assert len(feed(every, published(*range(9)))) == 1
    found = feed(resumed(every, ObjectKeyTrigger(every=10)), published(8, again=True))
    assert [firing.version for firing in found] == [8], "whoever waits for one is not left waiting"
    every = resumed(every, ObjectKeyTrigger(every=10))
    found = feed(every, [*published(8, again=True), *published(9, 10, 11)])
    assert [firing.version for firing in found] == [8, 10]


def test_a_period_goes_on_where_it_was() -> None:
    """The clock of the other process began elsewhere."""
    before = TimeTrigger(60.0)
    fired = [now for now in (100.0, 150.0, 160.0, 185.0, 199.0) if before.check(Tick(), now)]
    assert fired == [160.0]
    now = resumed(before, TimeTrigger(60.0))
    assert now.check(Tick(), 7.0) is None
    assert now.due() == 7.0 + 60.0 - 39.0
    assert [at for at in (27.0, 28.0, 87.0, 88.0) if now.check(Tick(), at)] == [28.0, 88.0]


@pytest.mark.parametrize("value", [9.0, 1.0])
def test_a_side_of_a_bound_is_remembered(value: float) -> None:
    """Of a number that the run does not announce again, such as a mean of what is yet to come."""
    before = ValueTrigger("mean_return_9", above=3.0)
    fire(before, Published("mean_return_9", 1, value=(value,)))
    now = resumed(before, ValueTrigger("mean_return_9", above=3.0))
    assert len(fire(now, Published("mean_return_9", 2, value=(5.0,)))) == (value < 3)


def test_a_side_that_waits_for_the_other_waits_on() -> None:
    def both() -> Trigger:
        return CountTrigger(10) & ValueTrigger(MODEL, above=3.0)

    low = Published(MODEL, 1, value=(0.0,))
    before = both()
    assert feed(before, [low, arrived(0, 12)]) == []
    now = resumed(before, both())
    assert feed(now, [Published(MODEL, 1, value=(0.0,), again=True)]) == []
    assert len(feed(now, published(2))) == 1


def test_what_is_around_a_trigger_may_change() -> None:
    first = Once(ObjectKeyTrigger())
    feed(first, published(0))
    before, now = SetTrigger(first, 1), SetTrigger(Once(ObjectKeyTrigger()), (1, 2))
    found, _ = remembered({"set.level": before})
    assert anew({"set.level": now}, found) == []
    assert feed(resumed(before, now, "set.level"), published(1)) == []


def test_one_that_was_changed_begins_anew_and_that_is_said() -> None:
    before = Once(ObjectKeyTrigger())
    feed(before, published(0))
    found, _ = remembered({"learner.look": before, "learner.gone": before})
    changed = First(ObjectKeyTrigger(), 2)
    assert anew({"learner.look": changed}, found) == [
        "what the trigger of learner.look remembers: it was changed, and begins anew"
    ]
    go_on({"learner.look": changed}, found)
    assert len(feed(changed, published(1, 2, 3))) == 2


def test_a_users_trigger_says_what_it_keeps() -> None:
    before = Above(3.0, ("_seen",))
    feed(before, published(1, 2))
    now = resumed(before, Above(3.0, ("_seen",)))
    assert isinstance(now, Above)
    assert (now._seen, now._left) == (2, 0)
    before._seen = object()
    found, (lack,) = remembered({"learner.look": before})
    assert found == {}
    assert lack == (
        "what Above of learner.look remembers: Object of type object is not JSON serializable"
    )
    before._seen = {1: 2}
    found, (lack,) = remembered({"learner.look": before})
    assert "the keys of a dict must be strings" in lack


@pytest.mark.parametrize("value", [float("-inf"), float("nan"), "", 0, [None, 2.5], {"a": [1]}])
def test_what_it_keeps_comes_back_as_it_was(value: object) -> None:
    before = Above(3.0, ("_seen",))
    before._seen = value
    now = resumed(before, Above(3.0, ("_seen",)))
    assert isinstance(now, Above)
    assert repr(now._seen) == repr(value)


def test_equal_parts_of_a_table_remember_apart() -> None:
    def either() -> Trigger:
        return Once(UpdateTrigger(2)) | (CountTrigger(100) & Once(UpdateTrigger(2)))

    before = either()
    feed(before, published(0, 1, 2))
    found, _ = remembered({"learner.look": before})
    assert len(found["learner.look"]) > len({each.split(".")[0] for each in found["learner.look"]})


def test_a_limit_that_was_set_meanwhile_makes_no_other_trigger() -> None:
    def rows(max_lag: int) -> Trigger:
        return Once(UpdateTrigger(2)) | DataKeyTrigger(("rewards",), max_lag=max_lag)

    before = rows(1)
    feed(before, published(0, 1, 2))
    found, _ = remembered({"learner.look": before})
    assert found
    assert anew({"learner.look": rows(2)}, found) == []


def test_rounds_that_are_asked_for_a_few_times_are_asked_for_again() -> None:
    """The round under way is lost with a run, and nobody else would ask for it."""
    first = First(ObjectKeyTrigger(), 3)
    for part in first.parts():
        part.by_rounds = isinstance(part, ObjectKeyTrigger)
    assert len(feed(first, published(0, 1))) == 2
    again = resumed(first, First(ObjectKeyTrigger(), 3))
    for part in again.parts():
        part.by_rounds = isinstance(part, ObjectKeyTrigger)
    found = feed(again, [*published(1, again=True), *published(2, 3)])
    assert [firing.version for firing in found] == [1, 2], "which does not count once more"


def test_what_it_does_not_have_is_refused_before_the_launch(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 8, tmp_path) as run:
        plan = run.coordinator.plan
    table = full_batch() | {"actors.sync": Above(3.0, ("_sin",))}
    (fault,) = faults(plan, table)
    assert fault.startswith("triggers['actors.sync']: kept: name attributes that are numbers")
    assert "'_sin'" in fault


# -- in checkpoints --------------------------------------------------------------------------------


def levels() -> Table:
    return {"set.max_lag": SetTrigger(Once(ValueTrigger(NOISE, above=3.0)), 0)}


def test_it_is_saved_at_the_end_though_there_is_no_new_version(tmp_path: Path) -> None:
    with recorded(tmp_path, tmp_path / "run", levels()) as one:
        folder = tmp_path / "run" / "checkpoint"
        one.update()
        one.record()
        before = read_manifest(folder).triggers
        one.run.publish_object(NOISE, 5.0)
        one.run.coordinator.look(LEARNER)
        one.record()
        assert read_manifest(folder).triggers == before, "there is nothing new to save"
        one.recorder.save(ended=True)
        saved = read_manifest(folder).triggers
    assert saved != before
    now = levels()
    go_on(now, saved)
    assert feed(now["set.max_lag"], [Published(NOISE, v, value=(9.0 * v,)) for v in (0, 1)]) == []


def test_a_checkpoint_says_of_what_triggers_did_not_know(tmp_path: Path) -> None:
    with recorded(tmp_path, tmp_path / "run", levels()) as one:
        folder = tmp_path / "run" / "checkpoint"
        one.update()
        one.run.publish_object(NOISE, 5.0)
        one.record()
        assert read_manifest(folder).untold == (NOISE,)
        one.update()
        one.record()
        assert read_manifest(folder).untold == ()
