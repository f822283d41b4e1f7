"""ObjectKeyTrigger, TimeTrigger, TransferTrigger and a trigger of the user's own."""

from __future__ import annotations

import math
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trigger_helpers import KEYS, arrived, committed, feed, fire, joined, rows

from artos.clock import ManualClock
from artos.errors import Refused
from artos.protocol.invocations import Claim
from artos.runs.loader import load_object
from triggers import DataKeyTrigger, ObjectKeyTrigger, TimeTrigger, TransferTrigger
from triggers.events import (
    Began,
    Committed,
    Event,
    Joined,
    Left,
    Published,
    Recheck,
    Resumed,
    Tick,
)
from triggers.table import decode_table


def published(*versions: int, key: str = "model_param") -> list[Event]:
    return [Published(key, version) for version in versions]


def test_an_object_key_fires_on_every_version_of_its_key() -> None:
    trigger = ObjectKeyTrigger("model_param")
    firings = feed(trigger, [*joined(2), *published(0, 1), *published(7, key="other"), Tick()])
    assert [f.version for f in firings] == [0, 1]
    assert all(f.actors is None and f.rounds == 1 for f in firings)


def test_every_kth_version() -> None:
    firings = feed(ObjectKeyTrigger(every=3), published(*range(10)))
    assert [f.version for f in firings] == [0, 3, 6, 9]


def test_a_resumed_run_begins_with_a_firing() -> None:
    firings = feed(ObjectKeyTrigger(every=3), published(*range(500, 508)))
    assert [f.version for f in firings] == [500, 503, 506]


def test_lead_grants_the_first_rounds_at_once() -> None:
    firings = feed(ObjectKeyTrigger(lead=2), published(*range(4)))
    assert [f.rounds for f in firings] == [3, 1, 1, 1]


def test_probability_chooses_each_actor_independently_and_only_those_there_are() -> None:
    trigger = ObjectKeyTrigger(probability=0.5, seed=3)
    feed(trigger, [*joined(3), Left(1), Left(9)])
    reference = random.Random(3)
    for version in range(200):
        chosen = tuple(actor for actor in (0, 2) if reference.random() < 0.5)
        firings = fire(trigger, Published("model_param", version))
        assert [f.actors for f in firings] == ([chosen] if chosen else [])


def test_a_certain_choice_takes_everyone() -> None:
    trigger = ObjectKeyTrigger(probability=1.0)
    assert [f.actors for f in feed(trigger, [*joined(3), *published(0)])] == [(0, 1, 2)]


def test_who_is_chosen_gets_the_rounds_and_hears_the_version_of_everybody() -> None:
    trigger = ObjectKeyTrigger(probability=1.0, lead=2)
    firings = feed(trigger, [*joined(2), *published(4, 5)])
    assert [(f.actors, f.rounds, f.version) for f in firings] == [((0, 1), 3, 4), ((0, 1), 1, 5)]


def test_time_begins_with_the_first_event_and_counts_from_the_last_firing() -> None:
    clock, trigger = ManualClock(100.0), TimeTrigger(2.0)
    assert trigger.due() is None
    assert fire(trigger, Published("model_param", 4), clock.now()) == []
    assert trigger.due() == 102.0
    clock.advance(1.9)
    assert fire(trigger, Tick(), clock.now()) == []
    clock.advance(5.0)
    (firing,) = fire(trigger, Tick(), clock.now())
    assert firing.version == 4
    assert trigger.due() == clock.now() + 2.0, "periods missed are not made up for"


@given(
    start=st.floats(0, 1e6, allow_nan=False),
    t=st.floats(1e-3, 1e4, allow_nan=False),
)
def test_time_fires_exactly_when_it_is_due(start: float, t: float) -> None:
    trigger = TimeTrigger(t)
    fire(trigger, Tick(), start)
    due = trigger.due()
    assert due is not None
    assert fire(trigger, Tick(), math.nextafter(due, -math.inf)) == []
    assert len(fire(trigger, Tick(), due)) == 1


STAGES = (("rewards", "dones"), ("observations",))
ALL = ("rewards", "dones", "observations")


def test_a_transfer_ships_stage_after_stage() -> None:
    trigger = TransferTrigger(STAGES, size=4)
    assert fire(trigger, committed(0, 3, keys=ALL)) == []
    firings = fire(trigger, committed(0, 9, version=7, keys=ALL))
    assert [f.keys for f in firings] == [*STAGES, *STAGES]
    assert [f.claims for f in firings] == [
        (Claim(0, 0, 4),), (Claim(0, 0, 4),), (Claim(0, 4, 8),), (Claim(0, 4, 8),)
    ]  # fmt: skip


def test_a_transfer_of_one_group_is_one_stage() -> None:
    assert TransferTrigger(KEYS).stages() == (KEYS,)
    assert TransferTrigger("rewards").stages() == (("rewards",),)  # type: ignore[arg-type]
    assert TransferTrigger((("rewards",), ("dones",))).stages() == (("rewards",), ("dones",))
    listed = TransferTrigger([["rewards"], ["dones"]])  # type: ignore[arg-type]
    assert listed.keys == (("rewards",), ("dones",))
    mixed = TransferTrigger(("rewards", ("dones", "values")))  # type: ignore[arg-type]
    assert mixed.stages() == (("rewards",), ("dones", "values"))


def test_a_transfer_tells_the_oldest_version_among_its_rows() -> None:
    trigger = TransferTrigger(KEYS, size=3)
    shipped = feed(trigger, [committed(0, 2, 0), committed(0, 4, 1), committed(0, 6, 1)])
    assert [f.version for f in shipped] == [0, 1]


def test_a_conditional_transfer_ships_everything_when_its_condition_fires() -> None:
    trigger = TransferTrigger(KEYS, condition=TimeTrigger(1.0))
    assert feed(trigger, [committed(0, 3), committed(1, 5)], now=0.0) == []
    assert trigger.due() == 1.0
    shipped = fire(trigger, Tick(), now=1.0)
    assert [c for f in shipped for c in f.claims] == [Claim(0, 0, 3), Claim(1, 0, 5)]
    assert fire(trigger, Tick(), now=2.0) == [], "an empty shipment is none"


def test_a_condition_sees_every_event() -> None:
    trigger = TransferTrigger(KEYS, condition=ObjectKeyTrigger(every=2))
    shipped = feed(trigger, [committed(0, 3), *published(4), committed(0, 5), *published(5, 6)])
    assert [f.claims for f in shipped] == [(Claim(0, 0, 3),), (Claim(0, 3, 5),)]


def test_rows_of_an_actor_that_was_placed_here_begin_where_its_place_does() -> None:
    """Placed here again, those that it had left unshipped are void."""
    trigger = TransferTrigger(KEYS, size=4)
    events = [Began(0, 8), committed(0, 12), committed(0, 15), Began(0, 12), committed(0, 15)]
    assert [f.claims for f in feed(trigger, events)] == [(Claim(0, 8, 12),)]
    assert [f.claims for f in fire(trigger, committed(0, 16))] == [(Claim(0, 12, 16),)]
    assert [f.claims for f in fire(trigger, committed(1, 4))] == [(Claim(1, 0, 4),)]


@given(amounts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), max_size=30))
def test_a_transfer_ships_every_row_once_per_stage(amounts: list[tuple[int, int]]) -> None:
    trigger, written = TransferTrigger(STAGES, size=2), [0, 0, 0]
    shipped: dict[tuple[str, ...], list[tuple[int, int]]] = {stage: [] for stage in STAGES}
    for actor, amount in amounts:
        written[actor] += amount
        for firing in fire(trigger, committed(actor, written[actor], keys=ALL)):
            shipped[firing.keys] += rows(firing.claims)
    whole = [(actor, step) for actor in range(3) for step in range(written[actor] // 2 * 2)]
    assert all(sorted(each) == whole for each in shipped.values())


OWN = '''
from dataclasses import dataclass, field

from triggers import Firing, Trigger
from triggers.events import Published


@dataclass
class EverySecond(Trigger):
    """Fires on every second version it sees."""

    key: str
    weights: tuple[float, ...] = ()
    inner: Trigger | None = None
    _seen: int = field(init=False, default=0)

    def __post_init__(self):
        if self.key == "never":
            raise ValueError("key must not be 'never'")

    def check(self, event, now):
        if isinstance(event, Published):
            self._seen += 1
            if self._seen % 2 == 0:
                return Firing(version=event.version)
        return None


class NoDataclass(Trigger):
    def check(self, event, now):
        return None


class NoTrigger:
    def __init__(self, **fields):
        pass
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own_triggers.py"
    path.write_text(OWN)
    return path


def load(source: str) -> object:
    return load_object(source, "")


def test_a_trigger_of_the_users_own_travels_as_plain_data(own: Path) -> None:
    cls = load_object(f"{own}:EverySecond")
    made = cls("model_param", (1.0, 2.0), TimeTrigger(3.0)) | ObjectKeyTrigger(every=10)
    encoded = {"actors.sync": made.encode()}
    travelled = msgspec.json.decode(msgspec.json.encode(encoded))
    table = decode_table(travelled, load)
    assert table["actors.sync"] == made
    firings = feed(table["actors.sync"], published(0, 1, 2, 3, 10))
    assert [f.version for f in firings] == [0, 1, 3, 10]


@pytest.mark.parametrize(
    "trigger",
    [
        DataKeyTrigger(KEYS, n=None, size=3, max_lag=2),
        ObjectKeyTrigger("other", every=2, probability=0.25, seed=4),
        TimeTrigger(0.5),
        TransferTrigger(STAGES, size=5, condition=TimeTrigger(1.0) & ObjectKeyTrigger()),
    ],
    ids=repr,
)
def test_every_primitive_comes_back_as_it_was(trigger: object) -> None:
    encoded = msgspec.json.decode(msgspec.json.encode({"t": trigger.encode()}))  # type: ignore[attr-defined]
    assert decode_table(encoded, load) == {"t": trigger}


def test_every_trigger_that_cannot_be_built_is_reported_at_once(own: Path) -> None:
    table = {
        "learner.a": {"type": f"{own}:EverySecond", "fields": {"key": "never"}},
        "learner.b": {"type": f"{own}:EverySecond", "fields": {"kee": "x"}},
        "learner.c": {"type": f"{own}:NoTrigger", "fields": {}},
    }
    with pytest.raises(Refused) as refused:
        decode_table(table, load)
    first, second, third = refused.value.faults
    assert "key must not be 'never'" in first
    assert "kee" in second
    assert "NoTrigger is not a Trigger" in third


def test_a_trigger_that_is_no_dataclass_says_so(own: Path) -> None:
    with pytest.raises(TypeError, match="put @dataclass above class NoDataclass"):
        load_object(f"{own}:NoDataclass")().encode()


def test_recheck_alone_never_fires_anything() -> None:
    for trigger in (
        DataKeyTrigger(KEYS, n=1), ObjectKeyTrigger(), TimeTrigger(1.0), TransferTrigger(KEYS)
    ):  # fmt: skip
        assert feed(trigger, [Joined(0), Recheck(), arrived(1, 5), Committed(1, {})]) == []


def test_rows_that_a_run_goes_on_with_are_not_shipped_again() -> None:
    trigger = TransferTrigger(KEYS, size=4)
    (firing,) = feed(trigger, [Resumed(0, 100), committed(0, 107)])
    assert firing.claims == (Claim(0, 100, 104),)
