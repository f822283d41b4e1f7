"""PPO on every kind of space and autoreset mode, from the user's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.run import run
from head.run.request import Request

KINDS = ["plain", "discrete", "multidiscrete", "parts", "continuous", "next_step", "disabled"]
SETTINGS = {"total_steps": 128, "envs": 2, "steps": 16, "minibatches": 1, "epochs": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_ppo_runs_on(kind: str, home: Path) -> None:
    settings = {"env": f"toys_to_run:{kind}", **SETTINGS}
    summary = run(Request("ppo", settings, inline=True, quiet=True, folder=home))
    assert summary.status.mean_return_100 == 20.0
    assert summary.status.steps == 128
