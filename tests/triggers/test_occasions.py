"""Triggers on a count of rows, on a published value, and with a number of firings."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from trigger_helpers import KEYS, arrived, feed, fire, new_plan

from artos.buffer.model_block import ObjectSpec
from artos.specs.keys import ArraySpec
from artos.system.snapshot import put_back
from triggers import (
    CountTrigger,
    DataKeyTrigger,
    First,
    ObjectKeyTrigger,
    Once,
    TimeTrigger,
    ValueTrigger,
)
from triggers.events import Event, Published, Resumed, Rewound, SampledBefore, Tick
from triggers.remembering import text_of
from triggers.table import decode_trigger
from triggers.verify.verifier import faults

# -- rows ------------------------------------------------------------------------------------------


def test_rows_of_all_actors_count_together_and_each_once() -> None:
    trigger = CountTrigger(10)
    assert feed(trigger, [arrived(0, 6), arrived(1, 3)]) == []
    (firing,) = fire(trigger, arrived(1, 4))
    assert (firing.claims, firing.actors) == ((), None)
    assert feed(trigger, [arrived(0, 6), arrived(1, 4)]) == [], "nothing new"
    assert len(fire(trigger, arrived(0, 26))) == 2, "twenty more at once"
    # Six are sampled again at the actor's next place.
    assert feed(trigger, [Rewound(0, 20), arrived(0, 26)]) == []
    assert len(fire(trigger, arrived(0, 36))) == 1


def test_keys_that_come_one_after_the_other_count_with_the_first() -> None:
    trigger = CountTrigger(4)
    assert len(fire(trigger, arrived(0, 4, keys=["rewards"]))) == 1
    assert feed(trigger, [arrived(0, 4, keys=["observations"])]) == []


def test_rows_of_an_earlier_part_of_the_run_were_counted_then() -> None:
    trigger = CountTrigger(10)
    assert feed(trigger, [SampledBefore(205), Resumed(0, 100), arrived(0, 104)]) == []
    assert len(fire(trigger, arrived(0, 105))) == 1, "as without the break"


def test_what_it_fired_with_is_not_counted_again_where_not_all_was_learned_from() -> None:
    before, after = CountTrigger(10), CountTrigger(10)
    assert len(feed(before, [arrived(0, 11)])) == 1
    put_back(after, json.loads(text_of(before)))
    assert feed(after, [SampledBefore(8), Resumed(0, 8), arrived(0, 19)]) == []
    assert len(fire(after, arrived(0, 20))) == 1


def test_episodes_of_an_earlier_part_of_the_run_were_counted_then() -> None:
    trigger = CountTrigger(episodes=10)
    assert feed(trigger, [known("episodes_ended", 95), Published("episodes_ended", 99)]) == []
    assert len(fire(trigger, Published("episodes_ended", 100))) == 1, "as without the break"


def known(key: str, version: int) -> Event:
    """Triggers knew that it had come to this number before the run resumed."""
    return Published(key, version, value=(float(version),), again=True)


def test_a_number_of_episodes_that_was_reached_earlier_is_none_that_is_reached() -> None:
    key = "episodes_ended"
    later = Published(key, 5_001, value=(5_001.0,))
    assert feed(ValueTrigger(key, above=1_000), [known(key, 5_000), later]) == []
    assert len(feed(ValueTrigger(key, above=1_000), [known(key, 900), later])) == 1


def test_a_bound_that_a_resumed_run_is_given_anew_may_be_passed_already() -> None:
    """A number that only grows never comes there again."""
    (firing,) = feed(
        ValueTrigger("seen", above=1_000), [known("seen", 1_500), known("seen", 1_600)]
    )
    assert firing.version == 1_500


# -- values ----------------------------------------------------------------------------------------


def values(*found: float) -> list[Event]:
    return [Published("spread", v, value=(value,)) for v, value in enumerate(found)]


@pytest.mark.parametrize(
    ("bounds", "fires_at"),
    [
        ({"above": 3.0}, [2, 5]),
        ({"below": 1.0}, [0, 4]),
        ({"above": 3.0, "below": 1.0}, [0, 2, 4, 5]),
    ],
)
def test_a_number_that_comes_to_lie_beyond_a_bound(
    bounds: dict[str, float], fires_at: list[int]
) -> None:
    found = feed(ValueTrigger("spread", **bounds), values(0.5, 3.0, 3.1, 4.0, 0.9, 3.5))
    assert [firing.version for firing in found] == fires_at


def test_a_number_that_is_not_known_changes_nothing() -> None:
    trigger = ValueTrigger("spread", above=3.0)
    others = [Published("spread", 7), Published("other", 7, value=(9.0,)), Tick()]
    assert feed(trigger, [*others, *values(math.nan)]) == []
    assert len(feed(trigger, values(4.0))) == 1
    assert feed(trigger, [*others, *values(4.0)]) == [], "it is still there"


@pytest.mark.parametrize(
    ("trigger", "why"),
    [
        (ValueTrigger("spread"), "waits for no value: give above, below or both"),
        (ValueTrigger("spread", above=math.inf), "above must be a finite number, not inf"),
        (ValueTrigger("spreads", above=1.0), "unknown object key 'spreads'"),
        (ValueTrigger("matrix", above=1.0), "matrix is not one number"),
        (ValueTrigger("model_param", above=1.0), "model_param is not one number"),
        (CountTrigger(0), "rows must be a whole number of at least 1, not 0"),
        (First(TimeTrigger(1.0), 0), "times must be a whole number of at least 1, not 0"),
        (Once(TimeTrigger(-1.0)), "t must be a positive number"),
        (Once(DataKeyTrigger(KEYS, size=16)), "hands over rows, which nobody takes once it fires"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(trigger: Any, why: str) -> None:
    objects = (
        ObjectSpec.sized("model_param", [ArraySpec("params", (10,))], 5),
        ObjectSpec.sized("spread", [ArraySpec("value", ())], 5),
        ObjectSpec.sized("matrix", [ArraySpec("value", (2, 2))], 5),
    )
    table = {
        "learner.update": DataKeyTrigger(KEYS, n=4, size=16),
        "actors.sample": ObjectKeyTrigger(),
        "learner.preprocess": trigger,
    }
    plan = msgspec.structs.replace(new_plan(table), objects=objects)
    assert any(why in fault for fault in faults(plan, table)), faults(plan, table)


# -- a number of firings ---------------------------------------------------------------------------


def test_it_fires_so_often_and_no_more() -> None:
    trigger = First(ObjectKeyTrigger(every=2), 2)
    found = feed(trigger, [Published("model_param", version) for version in range(9)])
    assert [firing.version for firing in found] == [0, 2]
    assert trigger.due() is None


def test_a_clock_is_not_waited_for_once_it_has_fired() -> None:
    trigger = Once(TimeTrigger(5.0))
    assert fire(trigger, Tick(), 1.0) == []
    assert trigger.due() == 6.0
    assert len(fire(trigger, Tick(), 6.0)) == 1
    assert trigger.due() is None
    assert fire(trigger, Tick(), 60.0) == []


@pytest.mark.parametrize(
    "trigger",
    [
        CountTrigger(100),
        ValueTrigger("spread", above=3.0),
        First(TimeTrigger(2.0), 3),
        Once(ValueTrigger("spread", below=0.5) | TimeTrigger(60.0)),
    ],
)
def test_they_travel_as_plain_data_and_say_what_they_are(trigger: Any) -> None:
    def load(home: str) -> Any:
        raise LookupError(home)

    again = decode_trigger(trigger.encode(), load)
    assert again == trigger
    assert again.words() == trigger.words()


def test_their_words() -> None:
    assert CountTrigger(100).words() == "every 100 rows of all actors together"
    assert ValueTrigger("spread", above=3, below=1).words() == (
        "spread above 3 or below 1, each time that it comes there"
    )
    assert First(TimeTrigger(2.0), 3).words() == "the first 3 times: every 2 s"
    assert Once(TimeTrigger(2.0)).words() == "once: every 2 s"
    assert Once(TimeTrigger(2.0)).name == "Once TimeTrigger"
