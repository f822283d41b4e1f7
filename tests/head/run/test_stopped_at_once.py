"""A run that is told to stop waits for work that was begun, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elastic_loop import Troupe, fifo, full_batch, troupe
from named import LEARNER

from artos.specs.actor_count import Manual
from artos.specs.members import ACTORS, Member
from artos.system.exit_report import ExitReport

ACTOR = Member(ACTORS, 0)
KILLED = ExitReport("killed", own=False)


@pytest.fixture
def players(tmp_path: Path) -> Iterator[Troupe]:
    """One actor that has been told to sample its first round; the run is told to stop."""
    with troupe(Manual(1, 1), full_batch(), 100, tmp_path) as made:
        made.begin()
        made.coordinator.ending.drain()
        assert not made.coordinator.finished, "its round is in flight"
        yield made


def test_before_the_first_version_nothing_is_waited_for(tmp_path: Path) -> None:
    """A learner that hangs in its set-up would keep the run for minutes, and leave as little."""
    with troupe(Manual(1, 1), full_batch(), 100, tmp_path) as players:
        players.coordinator.begin()
        assert not players.coordinator.finished
        players.coordinator.ending.drain()
        assert players.coordinator.finished


def without_a_place(players: Troupe) -> None:
    players.without_place = {ACTOR}


def without_a_slot(players: Troupe) -> None:
    players.without_slot = {ACTOR}


def dead(players: Troupe) -> None:
    players.kill(0)


def starting_again(players: Troupe) -> None:
    players.kill(0)
    players.coordinator.tick()
    assert players.said[-1] == ("start", 0)


@pytest.mark.parametrize("state", [without_a_place, without_a_slot, dead, starting_again])
def test_a_round_that_nobody_samples_is_no_work_in_flight(
    state: Callable[[Troupe], None], players: Troupe
) -> None:
    state(players)
    assert players.coordinator.finished


def test_what_the_learner_has_begun_is_finished_though_it_died(players: Troupe) -> None:
    players.step()
    assert players.coordinator.invocations.of(LEARNER)
    players.coordinator.died(LEARNER, KILLED)
    assert not players.coordinator.finished


@pytest.mark.parametrize("state", ["without_slot", "without_place"])
def test_rows_of_others_are_learned_from_if_the_rest_of_their_batch_has_a_place(
    state: str, tmp_path: Path
) -> None:
    with troupe(Manual(2, 2), full_batch(), 100, tmp_path) as players:
        players.begin()
        done = players._act(0, players._queues[ACTOR].popleft())
        players.coordinator.receive(ACTOR, done)
        players.coordinator.ending.drain()
        setattr(players, state, {Member(ACTORS, 1)})
        assert players.coordinator.finished == (state == "without_place")


def test_after_its_last_update_a_run_waits_for_no_place(tmp_path: Path) -> None:
    """No worker is left, and what its actor was granted beyond that is of no use to anybody."""
    with troupe(Manual(2, 2), fifo(), 100, tmp_path, updates=1) as players:
        players.begin()
        for member in (ACTOR, LEARNER):  # actor 1 does nothing yet
            call = players._queues[member].popleft()
            done = players._learn(call) if member == LEARNER else players._act(0, call)
            players.coordinator.receive(member, done)
        assert players.coordinator.progress.updates == 1
        assert not players.coordinator.finished, "actor 1 samples"
        players.without_place = {Member(ACTORS, 1)}
        assert players.coordinator.finished
