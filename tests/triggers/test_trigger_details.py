"""What triggers, tables and the engine promise beside the usual case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from test_verifier import rows, table
from trigger_helpers import KEYS, arrived, feed, fire, joined, new_plan

from artos.clock import ManualClock
from artos.errors import Refused
from artos.protocol.invocations import Claim
from artos.specs.keys import DataKey
from triggers import DataKeyTrigger, Firing, ObjectKeyTrigger, TimeTrigger, TransferTrigger, Trigger
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Event, Joined, Published, Rewound, Tick
from triggers.pacing import demands, fewest
from triggers.pairs import meet, plus
from triggers.table import decode_table, decode_trigger
from triggers.verify.verifier import faults
from triggers.window import Window
from triggers.wiring import consumers


@dataclass
class Listening(Trigger):
    """Never fires; remembers what it was asked."""

    when: float | None = None
    inner: tuple[Any, ...] = ()
    heard: list[Event] = field(init=False, repr=False, compare=False, default_factory=list)

    def check(self, event: Event, now: float) -> None:
        self.heard.append(event)

    def due(self) -> float | None:
        return self.when


# -- composition and time ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "due"),
    [(None, None, None), (3.0, None, 3.0), (None, 2.0, 2.0), (3.0, 2.0, 2.0), (1.0, 2.0, 1.0)],
)
def test_a_composition_is_due_when_its_first_side_is(
    left: float | None, right: float | None, due: float | None
) -> None:
    sides = Listening(left), Listening(right)
    assert (sides[0] & sides[1]).due() == due
    assert (sides[0] | sides[1]).due() == due
    assert TransferTrigger(KEYS, condition=sides[0]).due() == left


def test_a_transfer_without_a_condition_is_never_due() -> None:
    assert TransferTrigger(KEYS).due() is None


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        (None, None, None),
        ((1, 2), None, (1, 2)),
        (None, (2, 3), (2, 3)),
        ((1, 2, 4), (4, 2), (2, 4)),
        ((1,), (2,), ()),
    ],
)
def test_two_firings_meet_in_the_actors_that_both_are_for(one: Any, other: Any, met: Any) -> None:
    assert meet(Firing(actors=one), Firing(actors=other)).actors == met


def test_what_two_firings_make_together() -> None:
    one = Firing((Claim(0, 0, 2),), (Claim(1, 0, 2),), (0, 1), rounds=1, keys=("a", "b"), version=5)
    other = Firing((Claim(0, 2, 4),), (Claim(2, 0, 2),), (1, 2), 3, ("b", "c"), 4, 2, "t", 9)
    both = ((Claim(0, 0, 2), Claim(0, 2, 4)), (Claim(1, 0, 2), Claim(2, 0, 2)))
    assert plus(one, other) == Firing(*both, (0, 1, 2), 3, ("a", "b", "c"), 5, 2)
    assert meet(one, other) == Firing(*both, (1,), 3, ("a", "b", "c"), 5, 2)
    for each in (Firing(), one):
        assert plus(each, Firing()).actors is plus(Firing(), each).actors is None


def test_a_period_begins_when_the_last_one_was_over() -> None:
    trigger = TimeTrigger(5.0)
    assert trigger.due() is None
    assert [bool(trigger.check(Tick(), now)) for now in (1.0, 5.9, 6.0)] == [False, False, True]
    assert trigger.due() == 11.0
    assert [bool(trigger.check(Tick(), now)) for now in (10.9, 13.0)] == [False, True]
    assert trigger.due() == 18.0, "what was missed is not made up for"


def test_time_only_passes_when_something_is_due() -> None:
    clock, heard = ManualClock(), Listening()
    engine = Engine([], clock)
    assert engine.tick() == 0
    heard.when = clock.now() + 5.0
    engine = Engine([_wrapped(heard)], clock)
    engine.tick()
    assert heard.heard == []
    clock.advance(5.0)
    engine.tick()
    assert heard.heard == [Tick()]


def _wrapped(trigger: Trigger) -> Any:
    return TriggerWrapper("learner.update", trigger, DirectPasser(lambda firing: None))


# -- data triggers -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "peer"), [(1, 0), (1, 7), (None, 7)])
def test_who_waits_for_nobody_is_a_member_at_once(n: int | None, peer: int) -> None:
    """Where any actors will do, or where the one whose round it would share is not there."""
    trigger = DataKeyTrigger(KEYS, n=n, size=2)
    feed(trigger, [] if n is None else joined(1))
    feed(trigger, [Joined(1, peer, rows=100)])
    (firing,) = fire(trigger, arrived(1, 2))
    assert firing.claims == (Claim(1, 0, 2),)


def test_who_shares_a_round_is_a_member_from_that_round_on() -> None:
    trigger = DataKeyTrigger(KEYS, size=2)
    feed(trigger, [*joined(1), Joined(1, 0, rows=4), arrived(0, 2), arrived(1, 2)])
    assert trigger.taken(0) == 2
    firings = feed(trigger, [arrived(0, 4), arrived(0, 6)])
    assert [f.claims for f in firings] == [(Claim(0, 2, 4),), (Claim(0, 4, 6), Claim(1, 0, 2))]


def test_who_still_waits_to_join_holds_up_nobody_else() -> None:
    trigger = DataKeyTrigger(KEYS, size=2)
    feed(trigger, [*joined(1), Joined(1, 0, rows=100), Joined(2)])
    (firing,) = feed(trigger, [arrived(0, 2), arrived(2, 2)])
    assert firing.claims == (Claim(0, 0, 2), Claim(2, 0, 2))


def test_a_firing_says_all_that_its_rows_are_meant_for() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2, max_lag=0)
    trigger.window = Window(n=1, max_lag=5)
    feed(trigger, [*joined(1), Published("model_param", 3)])
    assert fire(trigger, arrived(0, 4, version=3)) == [
        Firing(claims=(Claim(0, 0, 2),), keys=KEYS, version=3),
        Firing(dropped=(Claim(0, 2, 4),), keys=KEYS, version=3),
    ]
    assert trigger.window.ahead == 1, "what was dropped is no update"


def test_nothing_was_taken_of_an_actor_that_nobody_knows() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2)
    feed(trigger, [*joined(1), arrived(0, 5)])
    assert [trigger.taken(actor) for actor in (0, 1)] == [4, 0]


@pytest.mark.parametrize(("left", "fires"), [(1, 0), (2, 1), (3, 1)])
def test_who_has_enough_rows_left_after_a_change_of_place_is_still_ready(
    left: int, fires: int
) -> None:
    trigger = DataKeyTrigger(KEYS, n=2, size=2)
    feed(trigger, [*joined(2), arrived(0, 3)])
    fire(trigger, Rewound(0, left))
    assert len(fire(trigger, arrived(1, 2))) == fires


def test_a_window_forgets_the_rounds_of_one_place_only() -> None:
    """Those of others count as before, and those voided before stay voided."""
    paces = Window(n=2, max_lag=2)
    for actor, version in ((0, 0), (1, 0), (2, 1)):
        paces.granted(actor, version)
    others = paces._granted.copy()
    for actor in (0, 1):
        paces.void(actor)
        paces.void(actor)
    paces.void(7)
    assert others == {0: 2, 1: 1}
    assert sorted(paces._granted.values()) == [1, 2], "a round of actor 2, and two at any time"
    assert paces._granted[1] == 1
    assert not any(paces.admits(actor) for actor in (0, 1, 2)), "each has one under way"
    for actor in (0, 1, 2):
        paces.used(actor)
    assert +paces._granted == {}


# -- tables ------------------------------------------------------------------------------------


def test_a_learner_without_rows_needs_one_actor() -> None:
    assert fewest({}) == 1
    assert fewest({"learner.update": TimeTrigger(1.0)}) == 1
    assert fewest({"learner.update": rows(n=None)}) == 1
    assert fewest({"learner.update": rows(n=None), "learner.more": rows(n=3)}) == 3


def test_a_transfer_consumes_nothing_whatever_fires_it() -> None:
    """Nor would a trigger that claims rows, which the verifier refuses there."""
    wired = {"transfer": rows(), "learner.update": rows()}
    assert [each.name for each in consumers(wired)] == ["learner.update"]


def test_only_learners_take_rows() -> None:
    parts = rows(), rows(n=2)
    wired = {
        "learner.update": parts[0] | TimeTrigger(1.0), "learner.preprocess": TimeTrigger(1.0),
        "actors.sync": rows(), "learner.more": parts[1],
    }  # fmt: skip
    assert demands(wired) == {
        "learner.update": [parts[0].demand],
        "learner.more": [parts[1].demand],
    }


def test_frames_that_are_looked_back_to_have_room_of_their_own() -> None:
    keys = (*(DataKey(key) for key in KEYS), DataKey("x", stack=3))
    assert new_plan(table()).capacity == 16
    assert new_plan(table(), data_keys=keys).capacity == 32


def test_a_chance_of_one_is_a_chance() -> None:
    sound = table(actors__sync=ObjectKeyTrigger(probability=1))
    assert faults(new_plan(sound), sound) == []


@pytest.mark.parametrize(
    ("keys", "max_lag", "says"),
    [
        (KEYS, None, []),
        (KEYS, 2, ["no versions for max_lag to count: leave it to the target that updates"]),
        (("dones",), None, ["a crash would lose its rows: let a target that publishes"]),
        (("dones",), 2, ["no versions for max_lag", "a crash would lose"]),
    ],
)
def test_a_target_that_publishes_nothing_only_helps(
    keys: tuple[str, ...], max_lag: int | None, says: list[str]
) -> None:
    helped = table(learner__preprocess=DataKeyTrigger(keys, n=4, size=16, max_lag=max_lag))
    found = faults(new_plan(helped, non_publishing=("preprocess",)), helped)
    assert len(found) == len(says)
    for fault, words in zip(found, says, strict=True):
        assert words in fault


def test_triggers_are_rebuilt_by_whoever_can_load_them() -> None:
    """Ours by name, a user's by file, which may have any name, also inside one another."""
    asked: list[str] = []

    def load(name: str) -> type:
        asked.append(name)
        return Listening

    def theirs(inner: list[Any]) -> dict[str, Any]:
        return {"type": "/C:/a:b.py:Listening", "fields": {"inner": inner}}

    found = decode_trigger(theirs([theirs([]), TimeTrigger(2.0).encode(), 5]), load)
    assert isinstance(found, Listening)
    assert found.inner == (Listening(), TimeTrigger(2.0), 5)
    assert asked == ["/C:/a:b.py:Listening"] * 2
    wired = {"a": rows(max_lag=1) & TimeTrigger(1.0), "b": TransferTrigger((KEYS, ("dones",)))}
    encoded = {target: trigger.encode() for target, trigger in wired.items()}
    assert decode_table(encoded, load) == wired
    assert len(asked) == 2


def test_a_users_trigger_is_declared_by_the_file_it_is_in() -> None:
    assert Listening(2.0).encode() == {
        "type": f"{__file__}:Listening", "fields": {"when": 2.0, "inner": ()},
    }  # fmt: skip


def test_what_is_no_trigger_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"^dict is not a Trigger: subclass triggers\.Trigger$"):
        decode_trigger({"type": "/C:/a:b.py:dict", "fields": {}}, lambda name: dict)


def test_versions_of_other_objects_are_none_of_a_triggers() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2, max_lag=0)
    feed(trigger, [*joined(1), Published("statistics", 9)])
    (firing,) = fire(trigger, arrived(0, 2))
    assert firing.claims
    feed(trigger, [Published("model_param", 9)])
    (firing,) = fire(trigger, arrived(0, 4))
    assert firing.dropped


@pytest.mark.parametrize("every", [[None], {}, "2", None])
def test_numbers_of_a_recorded_trigger_are_numbers(every: object) -> None:
    table = {"actors.sample": {"type": "triggers.primitives:ObjectKeyTrigger"}}
    with pytest.raises(Refused, match=r"triggers\['actors.sample'\]: every: expected `int`"):
        decode_table(
            {target: row | {"fields": {"every": every}} for target, row in table.items()}, str
        )
