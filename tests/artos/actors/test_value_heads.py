"""Policies with several value heads: each is bootstrapped as the only one of another policy is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from artos import PPO, DataKey
from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.learners.actor_critic import ActorCriticLearner
from artos.policies.acting import Declared
from artos.policies.build import check_policy
from artos.protocol.invocations import Invoke

ENVS, ROWS = 3, 37
HEADS = (2,)


class Twice(nn.Module):
    """Two values, one the tenfold of the other."""

    outputs = ("log_probs", DataKey("values", HEADS))

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def _values(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        first = self.layer(obs["observations"])
        return torch.cat((first, 10 * first), 1)

    def act(self, obs: dict[str, torch.Tensor], info: Any) -> dict[str, torch.Tensor]:
        values = self._values(obs)
        actions = torch.arange(len(values)) % 2
        return {"actions": actions, "log_probs": torch.zeros(len(values)), "values": values}

    def evaluate(self, obs: dict[str, torch.Tensor], actions: torch.Tensor) -> Any:
        none = torch.zeros(len(actions))
        return none, none, self._values(obs)


class Once(Twice):
    outputs = ("log_probs", "values")

    def _values(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        return super()._values(obs)[:, 0]


def sampled(policy: type[Twice], folder: Path) -> dict[str, Any]:
    """Rows of an actor on CartPole, cut after six steps."""
    actor = RolloutActor("CartPole-v1", policy, ENVS, env_args={"max_episode_steps": 6})
    keys = tuple(actor.data_keys())
    shm = ShmFolder.create(folder.name)
    try:
        block = ActorBlock.create(shm.path / "block", BlockSpec(0, keys, ROWS, ENVS, (), "wait"))
        plan: Any = SimpleNamespace(seed=0, actors=1, objects=())
        actor.setup(ActorContext(plan, 0, 0, block, 0))
        count = sum(p.numel() for p in policy(None).parameters())
        actor.bind(np.linspace(-1, 1, count).astype(np.float32), 0)
        actor.sample(0, ROWS, Invoke(1, "actors.sample", "sample"))
        found = {name: array.copy() for name, array in block.arrays.items()}
        actor.close()
    finally:
        shm.remove()
    return found


def test_each_head_is_bootstrapped_like_a_single_one(tmp_path: Path) -> None:
    one, two = sampled(Once, tmp_path / "one"), sampled(Twice, tmp_path / "two")
    assert two["bootstraps"].shape == (*one["bootstraps"].shape, *HEADS)
    cut = np.argwhere(one["truncations"])
    assert len(cut), "an episode was cut, beside the end of the round"
    assert np.flatnonzero(one["bootstraps"].any(1)).tolist()[-1] == ROWS - 1
    np.testing.assert_array_equal(two["bootstraps"][..., 0], one["bootstraps"])
    np.testing.assert_allclose(two["bootstraps"][..., 1], 10 * one["bootstraps"], rtol=1e-5)


def test_what_evaluates_them_returns_as_many_and_who_learns_from_one_says_so() -> None:
    actor = RolloutActor("CartPole-v1", Twice)
    declared = Declared.by(Twice, lambda: None)
    assert check_policy(Twice(None), actor.spec, declared) == []
    (fault,) = check_policy(Twice(None), actor.spec, Declared.by(Once, lambda: None))
    assert "act(obs, info)['values'] has shape" in fault
    plan: Any = SimpleNamespace(data_keys=tuple(actor.data_keys()), state_keys=(), envs=4, steps=8)
    (fault,) = (each for each in ActorCriticLearner.faults(PPO(), plan) if "values" in each)
    assert "PPO learns from values of shape () a row, and the policy's have (2,)" in fault
