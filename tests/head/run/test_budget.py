"""What ends a run: environment steps or updates, whichever is used up first."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elastic_loop import Troupe, fifo, full_batch, troupe
from helpers import ROOT
from inline_runs import finished, registered
from shown import demonstrate

from artos.buffer.samplers.patterns import Uniform
from artos.errors import Refused
from artos.protocol.invocations import Done, Invoke
from artos.specs.actor_count import Manual
from deploy.local.inline import Inline
from triggers import ReplayTrigger, RoundTrigger
from triggers.explain import explain
from triggers.journal import read
from triggers.table import Table

SMALL = {"actors": 2, "envs": 2, "steps": 8, "minibatches": 2, "epochs": 1}
BATCH = 2 * 2 * 8


@pytest.mark.parametrize("max_lag", [0, 1])
def test_so_many_updates_are_as_many_steps(max_lag: int, tmp_path: Path) -> None:
    """PPO anneals by progress, so the same weights also mean the same progress."""
    by_steps = finished(
        registered("ppo", tmp_path, **SMALL, max_lag=max_lag, total_steps=5 * BATCH), tmp_path
    )
    limits = {"total_steps": 0, "total_updates": 5}
    by_updates = finished(registered("ppo", tmp_path, **SMALL, max_lag=max_lag, **limits), tmp_path)
    assert by_updates.coordinator.progress.updates == by_steps.coordinator.progress.updates == 5
    budgets = [run.coordinator.ending.why for run in (by_steps, by_updates)]
    assert budgets == ["total_steps", "total_updates"]
    if max_lag == 0:
        assert by_updates.coordinator.steps == by_steps.coordinator.steps == 5 * BATCH
        np.testing.assert_array_equal(by_updates.arrays["params"], by_steps.arrays["params"])


def test_what_is_used_up_first_ends_the_run(tmp_path: Path) -> None:
    limits = {"total_steps": 3 * BATCH, "total_updates": 5}
    run = finished(registered("ppo", tmp_path, **SMALL, **limits), tmp_path)
    assert (run.coordinator.progress.updates, run.coordinator.steps) == (3, 3 * BATCH)
    assert run.coordinator.ending.why == "total_steps"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "table", [full_batch(), full_batch(2), fifo()], ids=["sync", "lag", "fifo"]
)
def test_no_more_updates_are_made_and_nothing_is_left(
    table: Table, seed: int, tmp_path: Path
) -> None:
    with troupe(Manual(3, 3), table, 0, tmp_path, seed, updates=7) as players:
        players.begin()
        players.run()
        coordinator = players.coordinator
        assert (len(players.used), coordinator.progress.updates) == (7, 7)
        assert len(coordinator.invocations) == 0
        if table == full_batch():
            assert set(players.unused().values()) == {0}
        coordinator.ports.journal.flush()
        lines = [*read(tmp_path / "journal.jsonl")]
    updates = {line["firing"] for line in lines if line.get("trigger") == "learner.update"}
    assert updates == {line["done"] for line in lines if line.get("by") == "learner"}


class Forgetful(Troupe):
    """Its learner finds nothing to draw every other time."""

    asked = 0

    def _learn(self, call: Invoke) -> Done:
        self.asked += 1
        if self.asked % 2:
            return Done(call.firing, self._node.weights.version, nothing="no row")
        return super()._learn(call)


@pytest.mark.parametrize("seed", range(8))
def test_a_draw_that_found_nothing_is_made_up_for(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastic_loop.Troupe", Forgetful)
    replay = ReplayTrigger("rewards", Uniform(8), ratio=4.0, after=0)
    table: Table = {"learner.update": replay, "actors.sample": RoundTrigger()}
    with troupe(Manual(2, 2), table, 0, tmp_path, seed, capacity=64, updates=9) as players:
        players.begin()
        players.run()
        monitor = players.coordinator.monitor
        assert (len(players.used), players.coordinator.progress.updates) == (9, 9)
        assert monitor.empty_draws >= 9


def test_a_run_without_any_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="total_steps must be at least 1, not 0"):
        registered("ppo", tmp_path, total_steps=0)
    with pytest.raises(Refused, match="total_updates must not be negative, but is -1"):
        registered("ppo", tmp_path, total_updates=-1)


def test_it_is_explained(tmp_path: Path) -> None:
    def told(**limits: int) -> str:
        made = registered("ppo", tmp_path, **SMALL, **limits)
        return explain(made.plan, made.table)

    assert ", 64 steps or 9 updates in all" in told(total_steps=64, total_updates=9)
    assert ", 9 updates in all" in told(total_steps=0, total_updates=9)


SHOWN = """
from dataclasses import replace
import my_demos
from artos import Uniform
from triggers import ReplayTrigger

def workload(actors: int = 0, total_steps: int = 64, total_updates: int = 0):
    made = my_demos.workload(actors=actors, total_steps=total_steps, total_updates=total_updates)
    update = ReplayTrigger(my_demos.ROW, Uniform(64, n_step=3), source="demos")
    return replace(made, triggers={**made.triggers, "learner.update": update})
"""
"""Whatever actors do, batches are of a data set alone, and there is always one more."""


class Stopped(Inline):
    """Told to stop in the tenth invocation; many more are too many."""

    asked, stops = 0, True

    def _run_one(self, coordinator: Any, member: Any, call: Invoke) -> None:
        self.asked += 1
        assert self.asked < 300, "it never ends"
        if self.stops and self.asked == 10:
            coordinator.ending.drain()
        super()._run_one(coordinator, member, call)


class Watched(Stopped):
    """Not told to stop."""

    stops = False


@pytest.mark.parametrize(
    ("members", "settings", "why"),
    [
        (Stopped, {"total_updates": 10_000}, ""),
        (Stopped, {"actors": 1, "total_steps": 10**6}, ""),
        (Watched, {"actors": 1, "total_steps": 512}, "total_steps"),
        (Watched, {"actors": 1, "total_steps": 512, "total_updates": 10_000}, "total_steps"),
        (Watched, {"actors": 1, "total_steps": 10**6, "total_updates": 30}, "total_updates"),
    ],
)
def test_data_sets_are_drawn_from_until_the_run_is_over(
    members: type[Inline], settings: dict[str, int], why: str, tmp_path: Path
) -> None:
    for name in ("my_dqn.py", "my_demos.py"):
        shutil.copy(ROOT / "docs" / "examples" / name, tmp_path)
    (tmp_path / "shown_alone.py").write_text(SHOWN)
    demonstrate(tmp_path / "demos.npz", episodes=1)
    registration = registered("shown_alone.py:workload", tmp_path, **settings)
    run = finished(registration, tmp_path, members).coordinator
    assert (run.finished, run.ending.why) == (True, why)
    assert run.progress.steps == run.progress.granted
    wanted = settings["total_updates"] if why == "total_updates" else run.progress.updates
    assert run.progress.updates == wanted > 0
