"""What publishes nothing is no update, no progress, and no version to come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_runs import Finished, finished
from schedules import ActorsFirst, LearnerFirst, registered

from artos.protocol.invocations import Claim
from deploy.local.inline import Inline
from head.run.coordination.books import Claims
from triggers.journal import read

ROUNDS, ROWS = 6, 3 * 2 * 16
ORDERS = [Inline, LearnerFirst, ActorsFirst]


def run(folder: Path, order: type[Inline], **settings: Any) -> Finished:
    fixed = {"total_steps": ROUNDS * ROWS, "minibatches": 3, "epochs": 2, "anneal": True}
    return finished(registered(folder, **fixed | settings), folder, order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("max_lag", [0, 1])
@pytest.mark.parametrize("pipeline", ["dual", "minibatch", "dual+minibatch"])
def test_books_in_any_order(
    pipeline: str, max_lag: int, order: type[Inline], tmp_path: Path
) -> None:
    """The learner is told of the next round while it has not begun with this one, or at once."""
    found = run(tmp_path, order, pipeline=pipeline, max_lag=max_lag)
    monitor, coordinator = found.coordinator.monitor, found.coordinator
    assert (monitor.rows_lost, monitor.rows_stale) == (0, 0)
    assert coordinator.progress.updates == coordinator.version == ROUNDS
    assert monitor.lag.rows == ROUNDS * 3 * 16 * 2, "rows count once, where they are used up"
    assert monitor.lag.largest == (0 if order is LearnerFirst else max_lag)
    assert coordinator.progress.consumed == coordinator.steps == ROUNDS * ROWS
    assert coordinator.first.has_booked(coordinator.ports.model.newest.firing)
    assert {"learn", "gather", "environment"} <= monitor.times.seconds().keys()
    assert ("preprocess" in monitor.times.seconds()) == ("dual" in pipeline)
    assert "policy_loss" in monitor.metrics


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("max_lag", [0, 1])
def test_learning_rates_fall_as_without_a_pipeline(
    max_lag: int, order: type[Inline], tmp_path: Path
) -> None:
    """They follow what was consumed; so every weight is the same to the last bit."""
    plain = run(tmp_path, order, max_lag=max_lag)
    dual = run(tmp_path, order, pipeline="dual", max_lag=max_lag)
    assert plain.arrays.keys() == dual.arrays.keys()
    for name, array in plain.arrays.items():
        np.testing.assert_array_equal(dual.arrays[name], array, err_msg=name)


def test_a_fast_learner_has_nothing_left_of_the_first_epoch(tmp_path: Path) -> None:
    """Each actor's rows are learned from before the next one samples."""
    found = run(tmp_path, LearnerFirst, pipeline="minibatch")
    lines = [*read(found.journal)]
    fired = {line["firing"]: line["trigger"] for line in lines if "firing" in line}
    order = [fired[line["done"]] for line in lines if "done" in line]
    per_round = ["actors.sample", "learner.first_pass"] * 3 + ["learner.update"]
    assert order == per_round * ROUNDS


def test_what_only_helped_is_not_consumed() -> None:
    claims = Claims({"learner.preprocess"})
    for consumer in ("learner.preprocess", "learner.update"):
        claims.claim(consumer, [Claim(0, 0, 16)])
    assert claims.done("learner.preprocess", Claim(0, 0, 16)) == (16, 16)
    assert claims.consumed() == 0
    claims.done("learner.update", Claim(0, 0, 16))
    assert claims.consumed() == 16
