"""Restarts in a row: the first at once, later ones after a pause, none lost, work given again."""

from __future__ import annotations

from pathlib import Path

import pytest
from elastic_loop import STEPS, full_batch, troupe
from named import acting

from artos.errors import ActorFailed
from artos.specs.actor_count import Manual
from artos.system.exit_report import ExitReport
from head.run.concerns.failures import FailureLimits
from head.run.concerns.scaling import Scaling


def test_the_pause_doubles_up_to_a_limit() -> None:
    limits = FailureLimits(backoff=0.1, most_backoff=0.5)
    assert [limits.delay(count) for count in range(1, 6)] == [0.0, 0.1, 0.2, 0.4, 0.5]


def test_a_second_restart_in_a_row_waits_and_its_work_is_not_lost(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), rounds=6, folder=tmp_path) as players:
        players.begin()
        players.kill(0)
        assert players.said.count(("start", 0)) == 1
        players.kill(0)
        assert players.said.count(("start", 0)) == 1
        players.coordinator.tick()
        assert players.said.count(("start", 0)) == 1, "its time has not come"
        players.clock.advance(1.0)
        players.coordinator.tick()
        assert players.said.count(("start", 0)) == 2
        players.run()
        assert sum(c.stop - c.start for claims in players.used for c in claims) == 6 * STEPS


def test_the_third_failure_of_its_own_ends_the_run_with_its_traceback(tmp_path: Path) -> None:
    with troupe(Manual(1, 1), full_batch(), rounds=4, folder=tmp_path) as players:
        players.begin()
        for _ in range(3):
            players.coordinator.died(*acting(0), ExitReport("ValueError: the same again"))
            players.clock.advance(10.0)
            players.coordinator.tick()
        with pytest.raises(ActorFailed, match="the same again"):
            players.coordinator.died(*acting(0), ExitReport("ValueError: the same again"))


def test_who_is_scaled_away_during_its_pause_is_not_started(tmp_path: Path) -> None:
    with troupe(Manual(1, 2), full_batch(), rounds=6, folder=tmp_path) as players:
        players.begin()
        players.coordinator.concern(Scaling).scale(2)
        for _ in range(2):
            players.coordinator.died(*acting(1), ExitReport("killed"))
        assert players.said.count(("start", 1)) == 1
        players.coordinator.concern(Scaling).scale(1)
        players.clock.advance(10.0)
        players.coordinator.tick()
        assert players.said.count(("start", 1)) == 1
        players.run()
