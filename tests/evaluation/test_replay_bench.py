"""Off-policy benchmarks compare equal work."""

from __future__ import annotations

import pytest

from evaluation.replay.cases import CASES, as_asked
from evaluation.workloads import pendulum


def test_sampling_at_once_and_in_turn_make_the_same_updates() -> None:
    ways = pendulum.concurrent(), pendulum.sequential()
    at_once, in_turn = (workload.triggers["learner.update"] for workload in ways)
    assert at_once == in_turn
    assert at_once.slack == pendulum.UPDATES * pendulum.BATCH  # one round's


def test_a_run_that_made_other_updates_than_were_due_is_refused() -> None:
    due = CASES["sac"].due(2_000)
    assert due == 1_900
    assert as_asked(due + 9, due) == due + 9
    with pytest.raises(SystemExit, match="2000 updates were made, and 1900 asked for"):
        as_asked(2_000, due)
