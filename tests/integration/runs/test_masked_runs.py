"""Runs on an environment that raises on a forbidden action; what was trained plays there, too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import SUPPORT
from masked_env import Masked
from real_runs import Outcome

import artos
from artos.errors import Refused
from deploy.local.run import run
from head.run.request import Request
from triggers.explain import explain
from triggers.registration import prepare

ONE = ("in_observation", "in_info", "in_info_cut", "next_step", "same_step", "disabled")
SMALL = {"total_steps": 240, "envs": 2}
OFF_POLICY = {**SMALL, "after": 60, "batch": 8}


@pytest.fixture(autouse=True)
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SUPPORT / "masked_env.py", home)
    monkeypatch.chdir(home)


def inline(home: Path, algorithm: str, env: str, **settings: Any) -> Any:
    usual = OFF_POLICY if algorithm in ("dqn", "sac") else {**SMALL, "steps": 12}
    more = {"minibatches": 2} if algorithm == "ppo" else {}
    wanted = {"env": f"masked_env:{env}", **usual, **more, **settings}
    return run(Request(algorithm, wanted, 1, home / "r", True, True, folder=home))


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [(name, env) for name in ("ppo", "dqn") for env in ONE]
    + [("a2c", "in_info"), ("impala", "in_observation"), ("sac", "in_info"), ("sac", "disabled")],
)
def test_nothing_forbidden_is_done(algorithm: str, env: str, home: Path) -> None:
    if algorithm == "dqn" and env == "same_step":
        with pytest.raises(Refused, match="begins the next episode in the step that ends one"):
            inline(home, algorithm, env)
        return
    summary = inline(home, algorithm, env)
    assert summary.status.steps >= 240
    assert summary.status.updates > 4
    assert summary.status.mean_return_100 == (9 if "cut" in env or env == "same_step" else 7)


@pytest.mark.parametrize("env", ["several", "several_in_info"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_of_several_sub_actions_none_is_forbidden(env: str, recurrent: bool, home: Path) -> None:
    summary = inline(home, "ppo", env, recurrent=recurrent)
    assert summary.status.mean_return_100 == 7


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("env", ["in_observation", "in_info_cut"])
def test_learner_and_actors_mean_the_same_probabilities(
    env: str, recurrent: bool, home: Path
) -> None:
    """In an update of one step the weights are those that acted: no row's ratio is off 1."""
    summary = inline(home, "ppo", env, recurrent=recurrent, epochs=1, minibatches=1, lr=1e-3)
    metrics = summary.progress
    assert abs(metrics["metrics/approx_kl"]) < 1e-5
    assert metrics["metrics/clip_fraction"] == 0


@pytest.mark.parametrize(
    ("algorithm", "env"), [("ppo", "in_info"), ("dqn", "in_info"), ("sac", "in_observation")]
)
def test_what_was_trained_keeps_to_the_mask(algorithm: str, env: str, home: Path) -> None:
    inline(home, algorithm, env)
    trained = artos.load(home / "r")
    found = trained.evaluate(3)
    assert found.returns == (7.0, 7.0, 7.0)
    played = Masked("dict" if env == "in_observation" else "info")
    obs, info = played.reset()
    over = False
    while not over:
        mask = None if env == "in_observation" else info["action_mask"]
        obs, _, over, _, info = played.step(trained.act(obs, greedy=False, mask=mask))
    if env == "in_info":
        with pytest.raises(Refused, match='missing: give act mask=info\\["action_mask"\\]'):
            trained.act(obs)
        with pytest.raises(Refused, match="allows no action"):
            trained.act(obs, mask=np.zeros(5))


@pytest.mark.parametrize("env", ["in_observation", pytest.param("in_info", marks=pytest.mark.long)])
def test_the_exported_program_keeps_to_the_mask(env: str, home: Path) -> None:
    inline(home, "ppo", env)
    trained = artos.load(home / "r")
    trained.export(home / "p.pt2")
    program = torch.export.load(home / "p.pt2").module()
    name = "observation" if env == "in_observation" else "observations"
    mask = torch.eye(5, dtype=torch.bool)
    actions = program({name: torch.zeros(5, 1), "action_mask": mask})
    assert actions.tolist() == [3, 4, 5, 6, 7]


def test_an_empty_mask_ends_the_run_with_words(artos: Callable[..., Outcome], home: Path) -> None:
    outcome = artos("run", "ppo", "--env", "masked_env:empty", "--total-steps", "2000", "--inline")
    assert outcome.status == 1
    assert "allows no action" in outcome.err


def test_explain_shows_the_mask(home: Path) -> None:
    from head.run.request import reference_of  # noqa: PLC0415

    reference = reference_of("ppo", {"env": "masked_env:in_info"}, home)
    found = prepare(reference, seed=1, apart=False)
    assert "observations.action_mask" in explain(found.plan, found.table)


def test_masked_continuous_actions_are_refused_before_launch(home: Path) -> None:
    with pytest.raises(Refused, match="masks discrete actions, and these are continuous"):
        inline(home, "ppo", "steered")
    assert not (home / "r").exists()
