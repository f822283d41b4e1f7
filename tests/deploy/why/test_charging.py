"""Every second of a member is charged, a wait to what was missing last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex, overload

import pytest

from deploy.why.charging import Charge, chain, shares
from deploy.why.history import History, Invocation

IN_TURN: tuple[dict[str, Any], ...] = (
    {"t": 0.5, "ready": "learner", "start": "fork", "seconds": 0.2},
    {"t": 0.5, "ready": "actor 0", "start": "fork", "seconds": 0.1},
    {"t": 0.5, "ready": "actor 1", "start": "fork", "seconds": 0.1},
    {"t": 1.0, "firing": 1, "trigger": "actors.sample", "version": 0, "after": "learner"},
    {"t": 2.0, "done": 1, "by": "actor 0", "seconds": 0.9},
    {
        "t": 4.0, "firing": 2, "trigger": "learner.update", "version": 0, "after": "actor 1",
        "claims": [[0, 0, 4], [1, 0, 4]],
    },
    {"t": 4.1, "done": 1, "by": "actor 1", "seconds": 3.0},
    {"t": 5.0, "firing": 3, "trigger": "actors.sample", "version": 1, "after": "learner"},
    {
        "t": 5.0, "done": 2, "by": "learner", "version": 1, "seconds": 0.8, "cpu": 0.4,
        "times": {"gather": 0.2, "learn": 0.6, "wait": 3.0, "wait_for_device": 0.1},
    },
)  # fmt: skip


def test_the_shares_of_each_member_add_up_to_its_wall_time() -> None:
    found = shares(History().read(IN_TURN))
    assert found.keys() == {"actor 0", "actor 1", "learner"}
    for kinds in found.values():
        assert sum(kinds.values()) == pytest.approx(1.0)


def test_of_a_long_journal_only_the_time_that_is_read_counts() -> None:
    """The lines that say since when members were there are not among its last ones."""
    again = {"t": 5.5, "ready": "learner", "start": "fork", "seconds": 0.2}
    learner = shares(History().read([*IN_TURN[5:], again]))["learner"]
    assert sum(learner.values()) == pytest.approx(1.0)
    assert learner["learn"] == pytest.approx(0.6 / 1.5), "of the 1.5 s from the first line on"


def test_a_wait_is_charged_to_the_last_condition_that_was_missing() -> None:
    learner = shares(History().read(IN_TURN))["learner"]
    assert learner["wait: actor 1"] == pytest.approx(3.5 / 4.5)
    assert "wait: actor 0" not in learner, "its rows had long been there"
    assert learner["wait: device"] == pytest.approx(0.1 / 4.5)
    assert learner["learn"] == pytest.approx(0.6 / 4.5)


def test_the_chain_leads_back_along_what_was_missing_last() -> None:
    history = History().read(IN_TURN)
    found = chain(history, history.members["learner"][-1], 1.0)
    assert sum(found.values()) == pytest.approx(4.0)
    assert found[Charge("sample", "actor 1")] == pytest.approx(3.0)
    assert found[Charge("learn", "learner")] == pytest.approx(0.6)
    assert not [charge for charge in found if charge.member == "actor 0"]


def test_what_kept_an_actor_from_beginning_is_told_apart() -> None:
    done = {"t": 4.1, "done": 1, "by": "actor 1", "seconds": 1.0, "slot": 1.2, "waited": 0.5}
    lines = [*IN_TURN[:6], {"t": 4.05, "blocked": 0.25}, done, *IN_TURN[7:]]
    (round_,) = History().read(lines).members["actor 1"]
    assert round_.kept["slot"] == pytest.approx(1.2)
    assert round_.kept["process"] == pytest.approx(0.5)
    assert round_.kept["disk"] == pytest.approx(0.25)
    assert round_.kept["hand-over"] == pytest.approx(0.15)
    (far,) = History(far=True).read(lines).members["actor 1"]
    assert far.kept["network"] == pytest.approx(0.15)


def test_who_was_scaled_away_waited_for_nobody() -> None:
    fewer = {"t": 4.2, "actors": 1, "before": 2, "version": 1}
    more = {"t": 8.0, "actors": 2, "before": 1, "version": 2}
    fired = {"t": 8.0, "firing": 4, "trigger": "actors.sample", "version": 2, "after": "learner"}
    done = {"t": 8.5, "done": 4, "by": "actor 1", "seconds": 0.5}
    lines = [*IN_TURN[:7], fewer, *IN_TURN[7:]]
    back = shares(History().read([*lines, more, fired, done]))["actor 1"]
    assert back["wait: scaled away"] == pytest.approx(3.8 / 8)
    assert back["wait: learner"] == pytest.approx((0.5 + 0.1) / 8)
    assert sum(back.values()) == pytest.approx(1.0)
    end = {"t": 8.0, "done": 3, "by": "actor 0", "seconds": 0.5}
    gone = shares(History().read([*lines, end]))["actor 1"]
    assert gone["wait: scaled away"] == pytest.approx(3.8 / 7.5)
    assert gone["wait: end"] == pytest.approx(0.1 / 7.5)
    old = [{k: v for k, v in line.items() if k != "before"} for line in [*lines, more]]
    assert shares(History().read([*old, fired, done]))["actor 1"] == back


def test_a_resumed_run_is_looked_at_since_then() -> None:
    late = [{**line, "t": line["t"] + 90.0} for line in IN_TURN]
    alone = shares(History().read(IN_TURN))
    assert shares(History().read([*late, *IN_TURN])) == alone
    soon = [{**line, "t": line["t"] / 100} for line in IN_TURN]
    assert shares(History().read([*soon, {"t": 0.0, "began": 9.5}, *IN_TURN])) == alone


def test_a_journal_without_causes_still_adds_up() -> None:
    old = [{k: v for k, v in line.items() if k != "after"} for line in IN_TURN]
    history = History().read(old)
    for kinds in shares(history).values():
        assert sum(kinds.values()) == pytest.approx(1.0)
    found = chain(history, history.members["learner"][-1], 1.0)
    assert sum(found.values()) == pytest.approx(4.0)


def test_who_did_nothing_did_not_work() -> None:
    """There was no row to draw, or none to sample: their answers have no seconds."""
    learner = {"t": 4.9, "done": 2, "by": "learner", "version": 0, "nothing": "no rows"}
    actor = {"t": 4.1, "done": 1, "by": "actor 1", "version": 0, "stop": 0}
    found = History().read([*IN_TURN[:6], actor, learner])
    for member, kept in (("learner", 0.9), ("actor 1", 3.1)):
        (last,) = found.members[member]
        assert sum(last.work.values()) == 0.0
        assert last.kept == pytest.approx({"hand-over": kept})
    for kinds in shares(found).values():
        assert sum(kinds.values()) == pytest.approx(1.0)


def test_who_died_before_it_could_say_how_long_it_took_worked_all_the_time() -> None:
    learner = {"t": 4.9, "done": 2, "by": "learner", "version": 1}
    actor = {"t": 4.1, "done": 1, "by": "actor 1", "stop": 8, "recovered": True}
    found = History().read([*IN_TURN[:6], actor, learner])
    for member, seconds in (("learner", 0.9), ("actor 1", 3.1)):
        assert sum(found.members[member][-1].work.values()) == pytest.approx(seconds)


class Counted(list[Invocation]):
    """A member's invocations; counts how many of them are read."""

    read = 0

    @overload
    def __getitem__(self, place: SupportsIndex) -> Invocation: ...
    @overload
    def __getitem__(self, place: slice) -> list[Invocation]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Invocation | list[Invocation]:
        found = super().__getitem__(place)
        self.read += len(found) if isinstance(found, list) else 1
        return found


def in_turn(updates: int) -> Iterator[dict[str, Any]]:
    """A journal of so many updates, each of a round of one actor."""
    yield {"t": 0.001, "ready": "learner", "start": "fork", "seconds": 0.2}
    yield {"t": 0.001, "ready": "actor 0", "start": "fork", "seconds": 0.1}
    for t in range(1, 2 * updates, 2):
        fired = {"firing": t, "trigger": "actors.sample", "version": 0, "after": "learner"}
        yield {"t": float(t), **fired}
        yield {"t": t + 1.0, "done": t, "by": "actor 0", "seconds": 1.0}
        fired = {"firing": t + 1, "trigger": "learner.update", "version": 0, "after": "actor 0"}
        yield {"t": t + 1.0, **fired}
        yield {"t": t + 2.0, "done": t + 1, "by": "learner", "seconds": 1.0, "times": {}}


def test_each_step_of_the_chain_looks_at_few_invocations_however_many_there_are() -> None:
    """A journal of a day has millions."""
    updates = 1_000
    history = History().read(in_turn(updates))
    counted = {member: Counted(past) for member, past in history.members.items()}
    history.members |= counted
    assert sum(chain(history, counted["learner"][-1], 1.0).values()) == pytest.approx(2 * updates)
    assert sum(each.read for each in counted.values()) < 2 * updates * 20
