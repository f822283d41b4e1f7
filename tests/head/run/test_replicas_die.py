"""Replicas of a learner: asked together, ended together, and booked as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER, acting
from test_ahead import publish, sample

from artos.errors import LearnerFailed
from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.actor_count import Manual
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.concerns.recovery import Recovery
from triggers.engine import DirectPasser
from triggers.passers import ToAll

SECOND = Member(LEARNER.role, 1)
BOTH = (LEARNER, SECOND)
KILLED = ExitReport("killed", own=False)


@pytest.fixture
def sent() -> dict[Member, list[Invoke]]:
    """What each replica was asked for."""
    return {member: [] for member in BOTH}


@pytest.fixture
def players(tmp_path: Path, sent: dict[Member, list[Invoke]]) -> Iterator[Troupe]:
    """Both replicas are in the middle of an update on the first rows."""
    with troupe(Manual(1, 1), full_batch(), 100, tmp_path, replicas=2) as made:
        made.passers[LEARNER] = ToAll([DirectPasser(sent[member].append) for member in BOTH])
        made.coordinator.begin()
        for member in (*BOTH, *acting(0)):
            made.coordinator.receive(member, Ready(0.0))
        publish(made, 0, 0)
        made.coordinator.look(LEARNER)
        sample(made, 0, STEPS, 0)
        made.said.clear()
        yield made


def starts(players: Troupe) -> list[Member | int]:
    return [who for what, who in players.said if what == "start" and who in BOTH]


def test_both_are_asked(players: Troupe, sent: dict[Member, list[Invoke]]) -> None:
    assert [call.firing for call in sent[LEARNER]] == [call.firing for call in sent[SECOND]]
    assert len(sent[LEARNER]) == 1
    waits = players.coordinator.waits()
    assert (
        waits["learner"]
        == waits["learner 1"]
        == f"running update (firing {sent[LEARNER][0].firing})"
    )


@pytest.mark.parametrize("dies", BOTH)
def test_one_dies_and_both_begin_again_with_what_they_were_asked(
    dies: Member, players: Troupe, sent: dict[Member, list[Invoke]]
) -> None:
    players.coordinator.died(dies, KILLED)
    assert players.said == [
        ("end", LEARNER),
        ("end", SECOND),
        ("start", LEARNER),
        ("start", SECOND),
    ]
    assert sent[LEARNER] == sent[SECOND] == sent[LEARNER][:1] * 2
    assert players.coordinator.monitor.restarts == 1


@pytest.mark.parametrize("dies", BOTH)
def test_an_update_that_was_published_is_not_made_again(
    dies: Member, players: Troupe, sent: dict[Member, list[Invoke]]
) -> None:
    (call,) = sent[LEARNER]
    publish(players, 1, call.firing)
    players.coordinator.died(dies, KILLED)
    assert len(sent[LEARNER]) == len(sent[SECOND]) == 1
    assert (players.coordinator.version, players.coordinator.progress.updates) == (1, 1)


def test_they_fail_as_one(players: Troupe) -> None:
    for dies in (LEARNER, SECOND, LEARNER):
        players.coordinator.died(dies, ExitReport("ValueError: the same again"))
        players.clock.advance(10.0)
        players.coordinator.tick()
    with pytest.raises(LearnerFailed, match="the same again"):
        players.coordinator.died(SECOND, ExitReport("ValueError: the same again"))


def test_an_answer_of_the_first_counts_for_both(
    players: Troupe, sent: dict[Member, list[Invoke]]
) -> None:
    """More kills than a member may have in a row."""
    for version in range(1, 31):
        players.coordinator.died(BOTH[version % 2], KILLED)
        call = sent[LEARNER][-1]
        publish(players, version, call.firing)
        players.coordinator.receive(LEARNER, Done(call.firing, version))
        sample(players, 0, (version + 1) * STEPS, version)
    assert players.coordinator.monitor.restarts == 30


def test_who_is_late_to_be_ready_is_started_once_with_the_others(players: Troupe) -> None:
    players.coordinator.died(SECOND, KILLED)
    players.said.clear()
    players.clock.advance(1.1 * players.coordinator.concern(Recovery).limits.start)
    players.coordinator.tick()
    players.clock.advance(1.0)  # the pause before a second restart
    players.coordinator.tick()
    assert starts(players) == [LEARNER, SECOND]
