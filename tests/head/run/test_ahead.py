"""How many versions are still to be made: counted exactly, however late the answers are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER, acting

from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.actor_count import Manual
from artos.specs.keys import VERSION_KEY
from artos.system.exit_report import ExitReport
from triggers.engine import DirectPasser


def sample(players: Troupe, actor: int, rows: int, version: int) -> None:
    block = players.coordinator.ports.blocks[actor]
    start = block.allocate(rows - block.written, seconds=0.0)
    for step in range(start, rows):
        block.arrays[VERSION_KEY][block.index(step)] = version
    block.commit(rows)
    players.coordinator.look(*acting(actor))


def publish(players: Troupe, version: int, firing: int) -> None:
    slot = players.coordinator.ports.model.allocate()
    players.coordinator.ports.model.commit(slot, version, firing)


def test_a_learner_that_dies_before_its_first_version_has_published_nothing(
    tmp_path: Path,
) -> None:
    with troupe(Manual(1, 1), full_batch(), 9, tmp_path) as players:
        players.coordinator.begin()
        players.coordinator.died(LEARNER, ExitReport("killed", own=False))
        assert players.coordinator.version == -1


@contextmanager
def two_updates_under_way(folder: Path) -> Iterator[tuple[Troupe, list[Invoke]]]:
    """A learner sent two updates on rows of version 0, the newest; and what it is sent."""
    sent: list[Invoke] = []
    with troupe(Manual(1, 1), full_batch(max_lag=1), 9, folder) as players:
        coordinator = players.coordinator
        learner = players.passers[LEARNER]
        players.passers[LEARNER] = DirectPasser(
            lambda call: (sent.append(call), learner.pass_message(call))[0]
        )
        coordinator.begin()
        for member in (LEARNER, *acting(0)):
            coordinator.receive(member, Ready(0.0))
        publish(players, 0, 0)
        coordinator.look(LEARNER)
        sample(players, 0, 2 * STEPS, 0)
        assert len(sent) == 2
        yield players, sent


def test_an_update_published_before_the_one_before_it_was_answered(tmp_path: Path) -> None:
    with two_updates_under_way(tmp_path) as (players, sent):
        coordinator = players.coordinator
        first, second = sent
        publish(players, 1, first.firing)
        coordinator.look(LEARNER)
        publish(players, 2, second.firing)
        coordinator.receive(LEARNER, Done(first.firing, 1))
        coordinator.receive(LEARNER, Done(second.firing, 2))
        sample(players, 0, 3 * STEPS, 1)
        assert len(sent) == 3, "rows one version old when they are used were given up"
        assert (coordinator.monitor.rows_lost, coordinator.monitor.rows_stale) == (0, 0)


def test_a_learner_started_anew_that_has_learned_before_it_is_heard(tmp_path: Path) -> None:
    """Both updates are made by the time that it is known to be ready: their lag is their own."""
    with two_updates_under_way(tmp_path) as (players, sent):
        coordinator = players.coordinator
        coordinator.died(LEARNER, ExitReport("killed", own=False))
        first, second = sent[-2:]
        publish(players, 1, first.firing)
        publish(players, 2, second.firing)
        coordinator.look(LEARNER)
        coordinator.receive(LEARNER, Ready(0.0))
        assert not coordinator.first.has_booked(second.firing), "the books lack both updates"
        coordinator.receive(LEARNER, Done(first.firing, 1))
        coordinator.receive(LEARNER, Done(second.firing, 2))
        assert coordinator.first.has_booked(second.firing)
        assert (coordinator.monitor.lag.mean, coordinator.monitor.lag.largest) == (0.5, 1)
