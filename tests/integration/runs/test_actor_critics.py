"""A2C and IMPALA: right targets whatever ends an episode, on every kind of space, and for real."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_runs import finished, registered
from learned import learned
from real_runs import Artos, Outcome

from deploy.local.run import run
from head.run.request import Request

BOTH = ["a2c", "impala"]
MODES = ["same_step", "next_step", "disabled"]
LAGS = [("a2c", {}), ("impala", {}), ("impala", {"max_lag": 3})]


@pytest.mark.parametrize("env", MODES)
@pytest.mark.parametrize(("algorithm", "more"), LAGS)
def test_targets_are_made_of_the_states_that_followed(
    algorithm: str, more: dict[str, Any], env: str, home: Path
) -> None:
    shutil.copy(Path(__file__).with_name("checked_targets.py"), home)
    reference, settings = f"checked_targets.py:checked_{algorithm}", {"env": env, **more}
    summary = run(Request(reference, settings, inline=True, quiet=True, folder=home))
    assert summary.progress["metrics/checked"] > 0.8 * 2_000
    assert summary.progress["metrics/exact"] > 20
    assert summary.status.lag_max == more.get("max_lag", 0)


KINDS = ["discrete", "multidiscrete", "parts", "continuous", "next_step", "disabled"]


@pytest.mark.parametrize("algorithm", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_they_run_on(kind: str, algorithm: str, home: Path) -> None:
    settings = {"env": f"toys_to_run:{kind}", "total_steps": 160, "envs": 2, "steps": 10}
    summary = run(Request(algorithm, settings, inline=True, quiet=True, folder=home))
    assert summary.status.mean_return_100 == 20.0
    assert summary.status.steps == 160


@pytest.mark.long
@pytest.mark.usefixtures("atari")
@pytest.mark.parametrize("algorithm", BOTH)
def test_they_run_on_frame_stacks(algorithm: str, home: Path) -> None:
    settings = {"env": "PongNoFrameskip-v4", "total_steps": 80, "envs": 2, "steps": 10}
    summary = run(Request(algorithm, settings, inline=True, quiet=True, folder=home))
    assert summary.status.steps == 80


def test_without_lag_impala_is_a2c(home: Path) -> None:
    """Both learn from the same rounds of both actors: V-trace then changes nothing but rounding."""
    same = {"env": "CartPole-v1", "total_steps": 400, "steps": 5, "optimiser": "adam"}
    same |= {"lam": 1.0, "ent_coef": 0.01, "max_grad_norm": 0.5}
    a2c = finished(registered("a2c", home, **same), home)
    same |= {"n": 2, "max_lag": 0}
    impala = finished(registered("impala", home, **same), home)
    assert a2c.coordinator.progress.updates == 10
    np.testing.assert_allclose(a2c.arrays["params"], impala.arrays["params"], atol=1e-4)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(("algorithm", "rows"), [("a2c", 2 * 4 * 5), ("impala", 4 * 20)])
def test_they_run_in_processes(algorithm: str, rows: int, artos: Callable[..., Outcome]) -> None:
    """IMPALA learns from each round that comes, from rows that are late by a bounded lag."""
    outcome = artos("run", algorithm, "--env", "CartPole-v1", "--total-steps", "4000", "--json")
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert 4_000 <= summary["steps"] <= 4_000 + 2 * 80, "each actor may be granted one round more"
    assert summary["updates"] == summary["steps"] // rows
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
    assert summary["lag_max"] <= (4 if algorithm == "impala" else 0)
    assert sum(summary["lag_histogram"].values()) == summary["steps"]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(
    ("algorithm", "seeds", "bar"), [("a2c", (1,), 400), ("impala", (1, 2), 300)]
)
def test_they_learn_cartpole(
    algorithm: str, seeds: tuple[int, ...], bar: float, start: Callable[..., Artos], home: Path
) -> None:
    """Stable-Baselines3's A2C needs 89,296 to 125,312 steps to a mean return of 400.

    That is with seeds 1 to 3 and its defaults, 8 environments as here; docs/benchmarks.md has ours.
    No run of IMPALA is like another, as its actors sample on meanwhile: its best was 396 to 500 in
    eight of nine runs, and 292 in one. So one of two is enough.
    """
    command = ("run", algorithm, "--env", "CartPole-v1", "--total-steps", "143000", "--json")
    assert any(
        learned(
            start(*command, "--seed", seed, "--run-dir", f"learnt{seed}"),
            home / f"learnt{seed}",
            100,
            bar,
        )
        for seed in seeds
    )
