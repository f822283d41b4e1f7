"""`&` and `|` compose any two triggers, and nothing they hand over is lost on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from trigger_helpers import KEYS, arrived, committed, feed, fire, joined, rows

from artos.protocol.invocations import Claim
from triggers import And, DataKeyTrigger, Firing, ObjectKeyTrigger, Or, TimeTrigger, TransferTrigger
from triggers.events import Event, Joined, Published, Tick
from triggers.pairs import meet, plus


def test_and_fires_once_both_have_fired() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2) & TimeTrigger(5.0)
    assert feed(trigger, [Joined(0), arrived(0, 2)], now=0.0) == []
    (firing,) = fire(trigger, Tick(), now=5.0)
    assert firing.claims == (Claim(0, 0, 2),)
    assert fire(trigger, Tick(), now=10.0) == [], "rows again are needed as well"


def test_and_keeps_what_arrives_while_it_waits() -> None:
    trigger = DataKeyTrigger(KEYS, n=1, size=2) & TimeTrigger(5.0)
    feed(trigger, [Joined(0), arrived(0, 2), arrived(0, 4)], now=0.0)
    (firing,) = fire(trigger, Tick(), now=6.0)
    assert rows(firing.claims) == [(0, step) for step in range(4)]


def test_and_is_for_those_whom_both_are_for() -> None:
    chosen = meet(Firing(actors=(1, 2)), Firing())
    assert chosen.actors == (1, 2)
    assert meet(Firing(actors=(1, 2)), Firing(actors=(2, 3))).actors == (2,)
    assert meet(Firing(), Firing()).actors is None
    assert plus(Firing(actors=(1,)), Firing(actors=(2, 1))).actors == (1, 2)
    assert plus(Firing(actors=(1,)), Firing()).actors is None


def test_a_random_pull_at_most_every_second_stays_random() -> None:
    trigger = ObjectKeyTrigger(probability=0.5, seed=1) & TimeTrigger(1.0)
    feed(trigger, [*joined(50), Published("model_param", 0)], now=0.0)
    (firing,) = fire(trigger, Tick(), now=1.0)
    assert firing.actors is not None
    assert 0 < len(firing.actors) < 50


def test_or_fires_for_either_and_for_both() -> None:
    trigger = ObjectKeyTrigger() | TimeTrigger(1.0)
    assert len(fire(trigger, Published("model_param", 0), now=0.0)) == 1
    assert len(fire(trigger, Tick(), now=1.0)) == 1
    assert len(fire(trigger, Published("model_param", 1), now=2.0)) == 2


def test_or_inside_and_misses_no_event() -> None:
    both_at_once = ObjectKeyTrigger("a") | ObjectKeyTrigger("a")
    trigger = both_at_once & ObjectKeyTrigger("b")
    assert feed(trigger, [Published("a", 0), Published("a", 1)]) == []
    (firing,) = fire(trigger, Published("b", 0))
    assert firing.version == 1


def test_composed_triggers_answer_for_their_parts() -> None:
    data, time, key = DataKeyTrigger(KEYS), TimeTrigger(3.0), ObjectKeyTrigger()
    trigger = (data & time) | key
    assert isinstance(trigger, Or)
    assert isinstance(trigger.left, And)
    assert trigger.parts() == (data, time, key)
    assert trigger.keys_read() == KEYS
    fire(trigger, Tick(), now=1.0)
    assert trigger.due() == 4.0
    assert repr(ObjectKeyTrigger() | TimeTrigger(1.0)).count(" | ") == 1


Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["rows", "version", "time"]), st.integers(0, 1), st.integers(1, 4)),
    max_size=50,
)


def play(trigger: And | Or, actions: list[Action]) -> tuple[list[Firing], list[int]]:
    """Firings of an interleaving of rows, versions and time, and the rows written per actor."""
    written, version, now = [0, 0], 0, 0.0
    firings = feed(trigger, joined(2), now)
    for kind, actor, amount in actions:
        event: Event = Tick()
        if kind == "rows":
            written[actor] += amount
            event = arrived(actor, written[actor])
        elif kind == "version":
            version += 1
            event = Published("model_param", version)
        else:
            now += amount
        firings += fire(trigger, event, now)
    return firings, written


@given(actions=ACTIONS, left_first=st.booleans(), size=st.integers(1, 3))
def test_or_hands_over_exactly_what_its_sides_do(
    actions: list[Action], left_first: bool, size: int
) -> None:
    def sides() -> list[DataKeyTrigger | ObjectKeyTrigger | TimeTrigger]:
        return [DataKeyTrigger(KEYS, n=1, size=size), ObjectKeyTrigger(every=2), TimeTrigger(3.0)]

    a, b, c = sides() if left_first else reversed(sides())
    together, written = play(a | (b | c), actions)
    apart = [play(Or(side, ObjectKeyTrigger("none")), actions)[0] for side in sides()]
    assert len(together) == sum(map(len, apart))
    claimed = rows(c for f in together for c in f.claims)
    assert sorted(claimed) == [(a, s) for a in (0, 1) for s in range(written[a] // size * size)]


@given(actions=ACTIONS, size=st.integers(1, 3), data_first=st.booleans())
def test_and_loses_no_row_and_never_fires_on_one_side_alone(
    actions: list[Action], size: int, data_first: bool
) -> None:
    data, other = DataKeyTrigger(KEYS, n=1, size=size), ObjectKeyTrigger()
    trigger = data & other if data_first else other & data
    firings, written = play(trigger, actions)
    versions = sum(kind == "version" for kind, _, _ in actions)
    assert len(firings) <= versions
    assert all(f.claims for f in firings)
    # Whatever is still held or claimable comes with the next versions.
    more = [Published("model_param", 1000 + i) for i in range(sum(written) + 1)]
    claimed = rows(c for f in [*firings, *feed(trigger, more)] for c in f.claims)
    assert sorted(claimed) == [(a, s) for a in (0, 1) for s in range(written[a] // size * size)]


def test_a_transfer_inside_or_ships_every_stage() -> None:
    trigger = TransferTrigger((("rewards",), ("observations",)), size=1) | ObjectKeyTrigger()
    assert [f.keys for f in fire(trigger, committed(0, 1))] == [("rewards",), ("observations",)]
