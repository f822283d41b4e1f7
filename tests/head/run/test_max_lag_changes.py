"""``artos set RUN max_lag=N``: rows as old as that, and none given up on the way there."""

from __future__ import annotations

from pathlib import Path

import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe

from artos.buffer.samplers.patterns import Episodes
from artos.errors import Refused
from artos.specs.actor_count import Manual
from artos.specs.configuration import Configuration
from head.run.concerns.configured import Configured
from triggers import CountTrigger, DataKeyTrigger, ObjectKeyTrigger, RoundTrigger, SetTrigger
from triggers.table import Table
from triggers.verify.verifier import faults


def by_turns(max_lag: int) -> Table:
    """Each update takes the rounds of two of the actors."""
    return {
        "learner.update": DataKeyTrigger(("rewards",), n=2, size=STEPS, max_lag=max_lag),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }


def lags_of(run: Troupe, updates: int) -> list[int]:
    """The lags of the rows of so many more updates."""
    before = len(run.lags)
    run.run(updates=len(run.used) + updates)
    return run.lags[before:]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("table", [full_batch, by_turns])
def test_actors_go_ahead_as_far_and_no_row_is_given_up(
    table: type[full_batch], seed: int, tmp_path: Path
) -> None:
    with troupe(Manual(4, 4), table(0), 0, tmp_path, seed, 4 * STEPS, updates=400) as run:
        configured = run.coordinator.concern(Configured)
        run.begin()
        assert {*lags_of(run, 20)} == {0}
        configured.set({"max_lag": 3})
        lags_of(run, 20)
        assert {*lags_of(run, 60)} >= {0, 3} - ({0} if table is full_batch else set())
        configured.set({"max_lag": 1})
        # Rounds that were granted before are used first.
        assert max(lags_of(run, 5)) <= 3
        assert max(lags_of(run, 60)) <= 1
        configured.set({"max_lag": 0})
        lags_of(run, 3)
        assert {*lags_of(run, 20)} == {0}
        assert (run.coordinator.monitor.rows_lost, run.coordinator.monitor.rows_stale) == (0, 0)
        assert max(run.unused().values()) <= 2 * STEPS


def test_whole_episodes_are_gathered_for_as_many_updates() -> None:
    trigger = DataKeyTrigger(("rewards",), sample=Episodes(2), max_lag=0)
    limit = trigger.limit
    assert limit is not None
    limit._whole = 2
    assert not limit.may_insert(1)
    trigger.bound(3, 1)
    assert (trigger.max_lag, limit.max_lag) == (3, 3)
    assert limit.may_insert(1)
    limit._whole = 4
    assert not limit.may_insert(1), "two updates' worth are there"


def test_a_run_that_goes_on_is_bounded_from_its_first_round_on(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), full_batch(), 0, tmp_path, 0, 4 * STEPS, updates=60) as run:
        coordinator = run.coordinator
        table = {wrapper.trigger_id: wrapper.trigger for wrapper in coordinator.engine.wrappers}
        Configured(coordinator, table, Configuration(2, {"max_lag": 2.0, "learner.gone": 1.0}))
        assert coordinator.configuration == Configuration(3, {"max_lag": 2.0})
        run.begin()
        run.run()
    assert max(run.lags) == 2


def test_what_a_run_could_not_go_on_with_is_refused(tmp_path: Path) -> None:
    two_rounds = {
        "learner.update": DataKeyTrigger(("rewards",), n=2, size=2 * STEPS, max_lag=5),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    with troupe(Manual(4, 4), two_rounds, 8, tmp_path) as run:
        configured = run.coordinator.concern(Configured)
        with pytest.raises(Refused, match="a cycle that waits for itself"):
            configured.set({"max_lag": 0})
        with pytest.raises(Refused, match="might have rows given up that the next version is to"):
            configured.set({"max_lag": 4})
        with pytest.raises(Refused, match=r"max_lag must be a whole number, not 1\.5"):
            configured.set({"max_lag": 1.5})
        with pytest.raises(Refused, match="a block of 72 rows, and it has 48: end the run and"):
            configured.set({"max_lag": 8})
        assert run.coordinator.configuration == Configuration()
    keeping = by_turns(2) | {"actors.sync": ObjectKeyTrigger("model_param", every=2)}
    with (
        troupe(Manual(4, 4), keeping, 8, tmp_path) as run,
        pytest.raises(Refused, match="might have rows given up that the next version is to"),
    ):
        run.coordinator.concern(Configured).set({"max_lag": 1})
    there_and_back = SetTrigger(CountTrigger(rows=99), (4, 1))
    with troupe(Manual(4, 4), keeping, 8, tmp_path, 0, 8 * STEPS) as run:
        plan, table = run.coordinator.plan, keeping | {"set.max_lag": there_and_back}
        (fault,) = faults(plan, table)
        assert "triggers['set.max_lag']: max_lag=1 might have rows given up" in fault
    unbounded = {
        "learner.update": DataKeyTrigger(("rewards",), size=STEPS),
        "actors.sample": RoundTrigger(),
    }
    with (
        troupe(Manual(2, 2), unbounded, 8, tmp_path) as run,
        pytest.raises(Refused, match="what can: nothing"),
    ):
        run.coordinator.concern(Configured).set({"max_lag": 1})
