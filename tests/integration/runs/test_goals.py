"""Hindsight experience replay: goals that are hardly ever reached by chance are learned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT
from learned import best_mean, learned
from real_runs import Artos

FLIP = ("dqn", "--env", "my_goals:flip", "--set", "n_step=1")
REACH = (
    "td3", "--env", "reaching:Point", "--set", "batch=64", "--set", "hidden=64,64",
)  # fmt: skip
RATES = (
    word for rate in ("lr", "critic_lr", "temperature_lr") for word in ("--set", f"{rate}=1e-3")
)
SAC = ("sac", *REACH[1:], *RATES)


@pytest.fixture
def goals(home: Path) -> Path:
    """A folder with both environments."""
    shutil.copy(ROOT / "docs" / "examples" / "my_goals.py", home)
    shutil.copy(Path(__file__).with_name("reaching.py"), home)
    return home


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(
    ("run", "steps", "bar", "bad"),
    [(FLIP, 4_000, -6.5, -9.0), (REACH, 2_200, -9.0, -16.0), (SAC, 2_200, -9.0, -16.0)],
    ids=["dqn", "td3", "sac"],
)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_goals_are_learned(
    seed: str,
    run: tuple[str, ...],
    steps: int,
    bar: float,
    bad: float,
    start: Callable[..., Artos],
    goals: Path,
) -> None:
    """Without relabelling the returns stay about those of a policy that never gets there.

    Those are -10 and -20; the best there are, about -4 in both.
    """
    running = start(
        "run",
        *run,
        "--set",
        "her=0.8",
        "--total-steps",
        2 * steps,
        "--json",
        "--seed",
        seed,
        "--run-dir",
        "her",
    )
    assert learned(running, goals / "her", 100, bar)
    plain = start(
        "run", *run, "--total-steps", steps, "--json", "--seed", seed, "--run-dir", "plain"
    )
    assert plain.wait().status == 0
    assert best_mean(goals / "plain", 100) < bad
