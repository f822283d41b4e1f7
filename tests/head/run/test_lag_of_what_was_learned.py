"""The books count the rows that an update learned from: those it was handed, or those it drew."""

from __future__ import annotations

from pathlib import Path

import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER

from artos.protocol.invocations import ActorLag, Done, Invoke
from artos.specs.actor_count import Manual
from triggers.journal import read

DRAWN = (ActorLag(0, 10, 50, 9, (0, 0, 0, 5, 5)), ActorLag(1, 10, 10, 1, (0, 10)))


def handed(run: Troupe) -> Invoke:
    """What the learner is asked for once both actors have sampled a round."""
    run.begin()
    while not run._queues.get(LEARNER):
        run.step()
    return run._queues[LEARNER].popleft()


@pytest.mark.parametrize(
    ("drawn", "unread", "rows", "mean", "largest"),
    [
        ((), False, 2 * STEPS, 0.0, 0),
        (DRAWN, True, 20, 3.0, 9),
        (DRAWN, False, 20 + 2 * STEPS, 60 / 28, 9),
    ],
    ids=["handed over", "drawn", "both"],
)
def test_lag_is_of_the_rows_learned_from(
    drawn: tuple[ActorLag, ...], unread: bool, rows: int, mean: float, largest: int, tmp_path: Path
) -> None:
    with troupe(Manual(2, 2), full_batch(), 9, tmp_path) as run:
        call = handed(run)
        run.coordinator.receive(LEARNER, Done(call.firing, 0, drawn=drawn, unread=unread))
        lag = run.coordinator.monitor.lag
        assert (lag.rows, lag.mean, lag.largest) == (rows, pytest.approx(mean), largest)
        by_actor = run.coordinator.monitor.lag_by_actor(spread=True)
        assert [lag["rows"] for lag in by_actor.values()] == [rows // 2] * 2
    (line,) = (line for line in read(tmp_path / "journal.jsonl") if "lags" in line)
    assert line["lag_max"] == largest
    assert len(line["lags"]) == len(drawn) + (0 if unread else 2)


def test_seconds_that_the_device_was_idle_are_summed(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 9, tmp_path) as run:
        run.coordinator.monitor.devices["learner"].idle = 1.0
        run.coordinator.receive(LEARNER, Done(handed(run).firing, 0, device_idle=0.5))
        assert run.coordinator.monitor.devices["learner"].idle == 1.5


def test_what_a_silent_method_draws_counts_and_what_it_is_handed_does_not(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 9, tmp_path) as run:
        call = handed(run)
        run.coordinator.non_publishing = frozenset({call.trigger})
        run.coordinator.receive(LEARNER, Done(call.firing, 0, drawn=DRAWN))
        assert run.coordinator.monitor.lag.rows == 20
        assert run.coordinator.progress.updates == 0
