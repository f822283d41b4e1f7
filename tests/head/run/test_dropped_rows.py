"""Rows too old to be used: given up, counted, and their room given back to who samples."""

from __future__ import annotations

from pathlib import Path

from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER, acting
from test_ahead import publish, sample

from artos.protocol.invocations import Claim, Done, Ready
from artos.specs.actor_count import Manual


def begin(players: Troupe) -> None:
    players.coordinator.begin()
    for member in (LEARNER, *acting(0, 1)):
        players.coordinator.receive(member, Ready(0.0))
    publish(players, 0, 0)
    players.coordinator.look(LEARNER)


def cursor(players: Troupe, actor: int) -> tuple[int, int]:
    return players.coordinator.ports.blocks[actor].headers["rewards"].cursor(0)


def test_dropped_rows_make_room_and_are_counted(tmp_path: Path) -> None:
    """Several rounds in a row, for the block to fill up if their room did not come back."""
    with troupe(Manual(2, 2), full_batch(), 100, tmp_path) as players:
        begin(players)
        coordinator, sent = players.coordinator, players._queues
        capacity = coordinator.plan.capacity
        rounds = 2 * capacity // STEPS
        for number in range(1, rounds + 1):
            publish(players, number, 0)  # as if many versions came of something else
            coordinator.look(LEARNER)
            for actor in (0, 1):
                sample(players, actor, number * STEPS, number - 1)
        assert LEARNER not in sent
        assert coordinator.monitor.rows_stale == 2 * rounds * STEPS
        assert coordinator.monitor.rows_lost == 0
        for actor, block in coordinator.ports.blocks.items():
            assert cursor(players, actor) == (rounds * STEPS, rounds * STEPS)
            assert block.free() == capacity
        assert coordinator.progress.consumed == coordinator.steps


def test_rows_dropped_behind_rows_in_use_wait_for_those(tmp_path: Path) -> None:
    """What the learner still reads is not overwritten because younger rows were given up."""
    with troupe(Manual(2, 2), full_batch(max_lag=1), 100, tmp_path) as players:
        begin(players)
        coordinator = players.coordinator
        for actor in (0, 1):
            sample(players, actor, STEPS, 0)
        (call,) = players._queues[LEARNER]
        assert call.claims == (Claim(0, 0, STEPS), Claim(1, 0, STEPS))
        for version in (1, 2, 3):
            publish(players, version, 0)
        coordinator.look(LEARNER)
        for actor in (0, 1):
            sample(players, actor, 2 * STEPS, 0)
        assert coordinator.monitor.rows_stale == 2 * STEPS
        assert cursor(players, 0) == (2 * STEPS, 0)
        coordinator.receive(LEARNER, Done(call.firing, 4))
        assert cursor(players, 0) == (2 * STEPS, 2 * STEPS)
