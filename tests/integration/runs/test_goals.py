"""Hindsight experience replay as the page on it does it: goals are what was reached later on."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import ROOT
from learned import learned
from real_runs import Artos

from artos import DrawnBatch

EXAMPLES = ROOT / "docs" / "examples"


def test_each_goal_was_reached_later_in_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    page = importlib.import_module("my_her")
    learner = page.HER()
    learner.context, learner.updates = SimpleNamespace(seed=1), 3
    places = np.arange(500 * 6, dtype=np.float32).reshape(500, 6, 1)
    lengths = np.arange(500) % 6 + 1
    sample = {
        "mask": np.arange(6) < lengths[:, None],
        "actions": np.zeros((500, 6), np.int64),
        "observations.observation": places,
        page.REACHED: places,
        page.WANTED: -np.ones((500, 6, 1), np.float32),
        "index": np.stack([np.zeros(500), 1000 * np.arange(500), np.zeros(500)], 1).astype(int),
    }
    found = learner.relabelled(DrawnBatch(sample, None))  # type: ignore[arg-type]
    goals, now = found[page.WANTED][:, 0], found[page.REACHED][:, 0]
    window, step = np.divmod(now, 6)
    kept = goals < 0
    assert 0.1 < kept.mean() < 0.3
    ahead = goals[~kept] - now[~kept]
    assert ahead.min() == 1
    np.testing.assert_array_equal(goals[~kept] // 6, window[~kept])
    rows = np.minimum(lengths, 5)[window.astype(int)]
    assert (step + goals - now)[~kept].max() == 5
    assert (step[~kept] + ahead <= rows[~kept]).all()
    np.testing.assert_array_equal(found["next." + page.WANTED][:, 0], goals)
    np.testing.assert_array_equal(found["next." + page.REACHED][:, 0], now + 1)
    reached = goals == now + 1
    np.testing.assert_array_equal(found["n_step.returns"], -(~reached).astype(np.float32))
    np.testing.assert_array_equal(found["n_step.discounts"] > 0, ~reached)
    np.testing.assert_array_equal(found["index"][:, 1], 1000 * window + step)


@pytest.mark.long
@pytest.mark.processes
def test_goals_are_learned(start: Callable[..., Artos], home: Path) -> None:
    """Ten bits to flip: -10 is what DQN alone gets, -4 about the best."""
    shutil.copy(EXAMPLES / "my_her.py", home)
    running = start("run", "my_her.py:workload", "--json", "--seed", "1", "--run-dir", "r")
    assert learned(running, home / "r", 100, -6.5)
