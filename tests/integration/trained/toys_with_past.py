"""A policy that looks at its past: each action is the number of a version that it remembers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from artos import RolloutActor, TorchLearner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger


class Told(gym.Env[Any, Any]):
    """Pays as many points as the number of the choice; an episode is one step."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        return np.zeros(1, np.float32), float(action), True, False, {}


def told() -> Told:
    return Told()


class Mindful(nn.Module):
    """Acts by what the second to last version was, whose only weight is its own number."""

    outputs = ()

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.number = nn.Parameter(torch.zeros(1))

    def act(self, obs: dict[str, torch.Tensor], info: Any) -> dict[str, torch.Tensor]:
        past = info.bound.past(2)
        number = round(float(past.params[0]))
        assert past.version in (-1, number), "its weights are those of that version"
        count = len(obs["observations"])
        return {"actions": torch.full((count,), max(0, number))}


class Counting(TorchLearner):
    """Each version's weight is the number of the version."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        with torch.no_grad():
            self.module.number += 1
        self.publish()
        return {}


def workload(total_updates: int = 9, evaluate_every: int = 0) -> Workload:
    actor = RolloutActor("toys_with_past:told", Mindful, envs=1, history=3, every=2)
    return Workload(
        name="mindful", actor=actor, learner=Counting(), actors=1, steps=4, total_steps=0,
        total_updates=total_updates, evaluate_every=evaluate_every, evaluation_episodes=1,
        triggers={
            "learner.update": DataKeyTrigger(("rewards",), size=4),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
    )  # fmt: skip
