"""Episodes(n): every whole episode is handed over once, in order, whatever cuts its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trigger_helpers import KEYS, feed, fire, new_plan

from artos.buffer.episode_ends import EpisodeEnds, Span
from artos.buffer.part_of_block import Part, stored_name
from artos.buffer.samplers.patterns import Episodes
from artos.protocol.invocations import Claim
from artos.runs.plan import Beside
from artos.specs.keys import DataKey
from head.run.coordination.books import Claims
from triggers import DataKeyTrigger, ObjectKeyTrigger, RoundTrigger, TimeTrigger, Trigger
from triggers.events import Arrived, Ended, Event, Joined, Learned, Published, Resumed, Rewound
from triggers.table import Table, decode_trigger
from triggers.verify import verifier
from triggers.wiring import completed

MARKS = (DataKey("ages", (), "uint8"), DataKey("terminations", (), "bool"))
ROWS = (DataKey("observations", (4,)), DataKey("rewards"))


def trigger_of(n: int, **more: int) -> DataKeyTrigger:
    trigger = DataKeyTrigger(KEYS, sample=Episodes(n), **more)
    trigger.complete("learner.update", new_plan({"learner.update": trigger}), {})
    return trigger


def ended(actor: int, start: int, stop: int, env: int = 0, version: int = 0) -> Ended:
    return Ended(actor, env, start, stop, version)


def test_so_many_whole_episodes_are_handed_over_whoever_they_are_from() -> None:
    trigger = trigger_of(3)
    assert feed(trigger, [Joined(0), Joined(1), ended(1, 0, 9), ended(0, 0, 4, env=1)]) == []
    (firing,) = fire(trigger, ended(1, 9, 12))
    assert firing.claims == (Claim(0, 0, 4, 1), Claim(1, 0, 9, 0), Claim(1, 9, 12, 0))
    assert (firing.keys, firing.dropped) == (KEYS, ())
    assert feed(trigger, [Joined(2), ended(1, 12, 13), ended(1, 13, 14)]) == []


def test_rows_that_a_run_goes_on_with_count_as_taken() -> None:
    trigger = trigger_of(1)
    assert feed(trigger, [Resumed(0, 100), Joined(0), Joined(1)]) == []
    assert (trigger.taken(0), trigger.taken(1)) == (100, 0)
    (firing,) = fire(trigger, ended(0, 100, 104))
    assert firing.claims == (Claim(0, 100, 104, 0),)
    assert trigger.taken(0) == 104


def test_an_episode_without_an_end_is_given_up_once_those_before_it_are_gone() -> None:
    trigger, lost = trigger_of(2), Ended(0, 0, 4, 6, whole=False)
    assert feed(trigger, [ended(0, 0, 4), lost]) == []
    handed, dropped = fire(trigger, ended(0, 6, 8))
    assert handed.claims == (Claim(0, 0, 4, 0), Claim(0, 6, 8, 0))
    assert (dropped.claims, dropped.dropped) == ((), (Claim(0, 4, 6, 0),))
    assert [f.dropped for f in fire(trigger, Ended(1, 1, 0, 5, whole=False))] == [
        (Claim(1, 0, 5, 1),)
    ]


def test_void_rows_take_their_episodes_with_them() -> None:
    trigger = trigger_of(3)
    feed(trigger, [ended(0, 4, 9), ended(1, 0, 20)])
    assert feed(trigger, [Rewound(0, 4), ended(0, 4, 7)]) == []
    (firing,) = fire(trigger, ended(0, 7, 9))
    assert firing.claims == (Claim(0, 4, 7, 0), Claim(0, 7, 9, 0), Claim(1, 0, 20, 0))
    assert (trigger.taken(0), trigger.taken(1), trigger.taken(2)) == (9, 20, 0)


def test_episodes_that_began_too_long_ago_are_given_up() -> None:
    """The first row is the oldest: one version back is the most with max_lag=1."""
    trigger = trigger_of(2, max_lag=1)
    feed(trigger, [Published("model_param", 3), ended(0, 0, 5, version=1), ended(1, 0, 5, 0, 2)])
    (firing,) = fire(trigger, ended(2, 0, 5, version=3))
    assert firing.claims == (Claim(1, 0, 5, 0), Claim(2, 0, 5, 0))


def test_actors_sample_until_there_are_enough_and_wait_for_the_learner() -> None:
    table: dict[str, Trigger] = {
        "actors.sample": RoundTrigger(ahead=1),
        "learner.update": DataKeyTrigger(KEYS, sample=Episodes(2)),
    }
    _, table = completed(new_plan(table), table)
    assert [*table] == ["learner.update", "actors.sample"], "what paces comes first"
    update, sample = table.values()

    def asked(*events: Event) -> list[tuple[int, ...] | None]:
        found = []
        for event in events:
            fire(update, event)
            found += [firing.actors for firing in fire(sample, event)]
        return found

    assert asked(Joined(0)) == [(0,)]
    assert asked(ended(0, 0, 8)) == []
    assert asked(Arrived(0, {"rewards": 16})) == [(0,)], "one is not enough"
    assert asked(ended(0, 0, 8, env=1), Arrived(0, {"rewards": 32})) == []
    assert asked(Learned("learner.other")) == []
    assert asked(Learned("learner.update")) == [(0,)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[list[Span]]]:
    """An actor's rows as flags (begins, ends, valid), and the episodes that are in them."""
    envs, resets = draw(st.integers(1, 3)), draw(st.booleans())
    lives = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    columns, spans = [], []
    for env in range(envs):
        column, found, row = [], list[Span](), 0
        for number, life in enumerate(lives):
            left = life  # rows until the actor is killed, in the midst of whatever it does
            while left:
                length = min(draw(st.integers(1, 6)), left)
                whole = length < left or draw(st.booleans())
                column += [(at == 0, whole and at == length - 1, True) for at in range(length)]
                if whole or number < len(lives) - 1:
                    found.append(Span(env, row, row + length, whole))
                row, left = row + length, left - length
                if whole and resets and left:
                    column.append((False, False, False))
                    row, left = row + 1, left - 1
                if not whole:
                    break
            column += [(False, False, False)] * left  # the actor was not there
            row += left
        columns.append(column)
        spans.append(found)
    begins, ends, valid = np.array(columns, bool).transpose(2, 1, 0)
    return begins, ends, valid, spans


@given(actors=st.lists(histories(), min_size=1, max_size=2), n=st.integers(1, 4), data=st.data())
def test_every_whole_episode_is_handed_over_once_in_order(
    actors: list[tuple[np.ndarray, np.ndarray, np.ndarray, list[list[Span]]]], n: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    """Whatever the rounds, restarts and resets; and no row is freed before its episode is used."""
    trigger, books = trigger_of(n), dict[int, Claims]()
    for actor, (*_, spans) in enumerate(actors):
        books[actor] = Claims(envs={"update": len(spans)})
    seen = defaultdict[tuple[int, int], list[Span]](list)
    handed, given_up = defaultdict[tuple[int, int], list[tuple[int, int]]](list), set[Claim]()
    under_way: list[tuple[Claim, ...]] = []
    finders = [EpisodeEnds(len(spans)) for *_, spans in actors]
    needed = {
        (actor, span.env, span.start): span
        for actor, (*_, spans) in enumerate(actors)
        for column in spans
        for span in column
        if span.whole
    }

    def done(claims: tuple[Claim, ...]) -> None:
        for claim in claims:
            needed.pop((claim.actor, claim.env, claim.start), None)
            _, free = books[claim.actor].done("update", claim)
            held = [s.start for (actor, *_), s in needed.items() if actor == claim.actor]
            assert free <= min(held, default=free)

    while left := [a for a, f in enumerate(finders) if f.seen < len(actors[a][0])]:
        actor = data.draw(st.sampled_from(left))
        at = finders[actor].seen
        stop = data.draw(st.integers(at + 1, len(actors[actor][0])))
        flags = (each[at:stop] for each in actors[actor][:3])
        for env, *rows, whole in finders[actor].rows(*flags):
            seen[actor, env].append(Span(env, *rows, whole))
            for firing in fire(trigger, Ended(actor, env, *rows, whole=whole)):
                for claim in firing.claims + firing.dropped:
                    books[claim.actor].claim("update", [claim])
                for claim in firing.claims:
                    handed[claim.actor, claim.env].append((claim.start, claim.stop))
                given_up.update(firing.dropped)
                done(firing.dropped)
                assert len(firing.claims) in (0, n)
                under_way += [firing.claims] if firing.claims else []
        while under_way and data.draw(st.booleans()):
            done(under_way.pop(0))
    total = 0
    for actor, (*_, spans) in enumerate(actors):
        for env, column in enumerate(spans):
            assert seen[actor, env] == column, "also what was cut off, unless nothing came after"
            wanted = [(s.start, s.stop) for s in column if s.whole]
            found = handed[actor, env]
            assert found == wanted[: len(found)], "in order, each once, none left out"
            total += len(wanted) - len(found)
            lost = {Claim(actor, s.start, s.stop, env) for s in column if not s.whole}
            assert {c for c in given_up if (c.actor, c.env) == (actor, env)} <= lost
    assert total < n, "fewer than another update takes are left"


def test_void_rows_come_again_and_what_was_begun_before_them_is_given_up() -> None:
    """An actor is placed anew at row 5, in the midst of two episodes; a third begins just there."""
    begins, ends = np.zeros((2, 8, 3), bool)
    begins[0], begins[[3, 5, 6], [0, 2, 1]] = True, True
    ends[[2, 4, 5, 7], [0, 2, 1, 2]] = True
    finder = EpisodeEnds(3)
    assert finder.rows(begins, ends) == [
        Span(0, 0, 3, True), Span(2, 0, 5, True), Span(1, 0, 6, True), Span(2, 5, 8, True)
    ]  # fmt: skip
    finder.rewind(5)
    assert (finder.seen, finder.over) == (5, [3, 5, 5])
    again, none = np.ones((1, 3), bool), np.zeros((1, 3), bool)
    assert finder.rows(again, none) == [Span(0, 3, 5, False)]
    assert finder.rows(none, again) == [Span(env, 5, 7, True) for env in range(3)]


def test_the_ends_of_lives_in_a_game_are_ends_of_episodes() -> None:
    """A life is lost in row 1: the game goes on, so the next row's age is not 0."""
    begins, ends = np.zeros((2, 6, 1), bool)
    begins[[0, 4]], ends[[1, 3]] = True, True
    spans = EpisodeEnds(1).rows(begins, ends)
    assert spans == [Span(0, 0, 2, True), Span(0, 2, 4, True)]


def test_it_travels_and_says_what_it_is() -> None:
    trigger = DataKeyTrigger(KEYS, sample=Episodes(8), max_lag=2)
    data = msgspec.json.decode(msgspec.json.encode(trigger.encode()))
    assert decode_trigger(data, pytest.fail) == trigger
    assert trigger.words() == "8 whole episodes in observations, rewards, at most 2 versions old"


def test_lengths_are_not_given_twice() -> None:
    with pytest.raises(TypeError, match=r"lengths of their own: leave out size=4"):
        DataKeyTrigger(KEYS, sample=Episodes(8), size=4)
    with pytest.raises(TypeError, match=r"say n=2 or sample=Episodes\(n=8\), not both"):
        DataKeyTrigger(KEYS, n=2, sample=Episodes(8))


def faults(trigger: Trigger, sample: Trigger | None = None, **changes: object) -> Iterator[str]:
    table = {"learner.update": trigger, "actors.sample": sample or RoundTrigger()}
    given = {"data_keys": ROWS + MARKS, "capacity": 256, **changes}
    yield from verifier.faults(new_plan(table, **given), table)


def test_what_is_missing_is_said_before_the_launch() -> None:
    trigger = DataKeyTrigger(KEYS, sample=Episodes(8))
    assert [*faults(trigger)] == []
    where = "triggers['learner.update']: Episodes(8)"
    assert [*faults(trigger, data_keys=ROWS, capacity=0, on_full="overwrite")] == [
        f"{where} needs the data key 'ages' (uint8): 0 in an episode's first row, 1 more in each "
        "after it, up to 255; let the actor write it, and data_keys not leave it out",
        f"{where} needs the data key 'terminations' or 'truncations' (bool): true in an episode's "
        "last row; let the actor write it, and data_keys not leave it out",
        f'{where} keeps the rows of an episode until it is over: set on_full="wait", not '
        "'overwrite'",
        f"{where} cannot tell how long an episode may be: set capacity, the rows kept per actor, "
        "to more than that and a round (steps=16), e.g. capacity=1024",
    ]
    assert [*faults(DataKeyTrigger(KEYS, sample=Episodes(0)))] == [
        "triggers['learner.update']: episodes must be a whole number of at least 1, not 0"
    ]


def test_they_do_not_wait_for_something_else() -> None:
    """It might be an episode that is given up which fires together with the other side."""
    trigger = DataKeyTrigger(KEYS, sample=Episodes(8))
    assert [*faults(trigger & TimeTrigger(1.0))] == [
        "triggers['learner.update']: whole episodes cannot wait inside `&` for the other side, as "
        "some of them are given up: leave out Episodes(n), or the other side"
    ]
    assert [*faults(trigger | TimeTrigger(1.0))] == []


def test_a_round_without_a_whole_episode_would_be_the_last() -> None:
    (fault,) = faults(DataKeyTrigger(KEYS, sample=Episodes(8)), ObjectKeyTrigger("model_param"))
    assert 'a round may end with none: a cycle that waits for itself; write "actors' in fault


def test_a_policy_is_handed_the_episodes_of_its_own_agents() -> None:
    parts = {name: Part(name, (*ROWS, *MARKS), envs=1) for name in ("learner", "other")}
    own = {name: tuple(stored_name(name, key) for key in KEYS) for name in parts}
    table: Table = {
        **{f"{name}.update": DataKeyTrigger(own[name], sample=Episodes(2)) for name in parts},
        "actors.sample": RoundTrigger(),
    }
    new_plan(table, parts=parts, capacity=64, beside=(Beside("other", 2),))
    mine, others = table["learner.update"], table["other.update"]
    events = [
        Ended(0, 0, at, at + 2, at, policy=policy)
        for at, policy in ((0, "learner"), (2, "other"), (4, "other"), (6, ""), (8, "learner"))
    ]
    (handed,) = feed(mine, events)
    assert [claim.start for claim in handed.claims] == [0, 8]
    (handed,) = feed(others, events)
    assert [claim.start for claim in handed.claims] == [2, 4]
