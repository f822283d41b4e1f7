"""Runs of environments that pay several rewards at once: each is in the rows, by its name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers import ROOT
from inline_runs import commanded

PAYING = ROOT / "tests" / "artos" / "envs" / "paying_for_tests.py"
ENV = "paying:paying(components={'far': 1.0, 'cost': -0.5, 'late': 2.0})"
LEARNERS = f"""
from artos import DQN, PPO, Policy, QNetwork, RolloutActor, Uniform, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, ReplayTrigger, RoundTrigger

NAMES = "rewards.far", "rewards.cost", "rewards.late"
ROW = "observations", "actions", "rewards", "terminations", "truncations", *NAMES


def checked(seen, actions, rewards, far, cost, late):
    assert (far == seen[..., 0] + 1).all() and (cost == actions).all() and (late == 1).all()
    assert abs(far - 0.5 * cost + 2 * late - rewards).max() < 1e-6
    return {{"cost": float(cost.mean())}}


class Draws(DQN):
    reads = NAMES

    def update(self, batch, call):
        found = checked(*(batch[name] for name in (*ROW[:3], *NAMES)))
        return super().update(batch, call) | found


class Rounds(PPO):
    reads = NAMES

    def update(self, batch, call):
        found = checked(*(batch.gather(name) for name in (*ROW[:3], *NAMES)))
        return super().update(batch, call) | found


def draws():
    return Workload(
        name="draws", actor=RolloutActor({ENV!r}, QNetwork, envs=2), learner=Draws(),
        triggers={{
            "learner.update": ReplayTrigger(ROW, Uniform(32), ratio=4.0, after=100),
            "actors.sample": RoundTrigger(),
        }},
        steps=8, capacity=512, on_full="overwrite", total_steps=1_000,
    )


def rounds():
    return Workload(
        name="rounds", actor=RolloutActor({ENV!r}, Policy(), envs=2), learner=Rounds(lr=3e-3),
        triggers={{
            "learner.update": DataKeyTrigger((*ROW, "log_probs", "values", "bootstraps"), size=32),
            "actors.sample": ObjectKeyTrigger("model_param"),
        }},
        steps=32, total_steps=1_280,
    )
"""


@pytest.fixture
def folder(home: Path) -> Path:
    shutil.copy(PAYING, home / "paying.py")
    (home / "weighing.py").write_text(LEARNERS)
    return home


@pytest.mark.parametrize("name", ["draws", "rounds"])
def test_a_learner_reads_each_by_its_name(name: str, folder: Path) -> None:
    """Drawn, where final observations have rows of their own, and in rounds."""
    ended = commanded(folder, ("run", f"weighing.py:{name}", "--inline", "--json"))
    assert ended.status == 0, ended.err
    assert 0.0 <= ended.summary["progress"]["metrics/cost"] <= 3.0
    assert ended.summary["updates"] > 5


def test_an_algorithm_learns_from_their_sum(folder: Path) -> None:
    """Of actions 0 to 3 the last costs most, so at best an episode pays 1 + 2 + 3 + 3 * 2."""
    weights = json.dumps({"far": 1.0, "cost": -0.5, "late": 2.0})
    given = ("--env", "paying:paying", "--env-arg", f"components={weights}", "--set", "steps=32")
    limit = ("--total-steps", 6_000, "--set", "lr=0.01", "--run-dir", folder / "run", "--json")
    ended = commanded(folder, ("run", "ppo", "--inline", *given, *limit))
    assert ended.status == 0, ended.err
    assert ended.summary["mean_return_100"] > 11.5
    refused = commanded(folder, ("run", "ppo", "--env", "paying:paying"))
    assert refused.status == 2
    assert "pays rewards of shape (3,)" in refused.err
