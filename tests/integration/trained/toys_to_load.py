"""A user's environments: every kind of action, pictures, and episodes of different lengths."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from artos import Invoke, RolloutActor, TorchLearner, Workload
from artos.policies.recurrent import RecurrentActorCritic
from triggers import DataKeyTrigger, ObjectKeyTrigger

BOX = spaces.Box(-1.0, 1.0, (3,), np.float64)
PICTURE = spaces.Box(0, 255, (40, 44, 3), np.uint8)
PARTS = spaces.Dict(
    {
        "picture": PICTURE,
        "inner": spaces.Dict({"what": spaces.Discrete(3), "doors": spaces.MultiDiscrete([2, 4])}),
        "grid": spaces.Box(-1.0, 1.0, (2, 2), np.float32),
    }
)


class Toy(gym.Env[Any, Any]):
    """Observations at random; episodes of 2 to 12 steps, drawn when they begin; odd rewards."""

    def __init__(self, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
        # Each its own, as a space is a source of random numbers, too.
        self.observation_space, self.action_space = deepcopy(observations), actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.left = int(self.np_random.integers(2, 13))
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.left -= 1
        reward = 3.0 + float(np.sum(action)) + self.left
        return self.observation_space.sample(), reward, False, self.left == 0, {}


def discrete() -> Toy:
    return Toy(BOX, spaces.Discrete(4, start=5))


def grid() -> Toy:
    return Toy(BOX, spaces.MultiDiscrete([[2, 3], [5, 2]], start=[[0, 1], [2, 0]]))


def bits() -> Toy:
    return Toy(BOX, spaces.MultiBinary(3))


def continuous() -> Toy:
    low, high = np.array([[-0.01], [-np.inf]]), np.array([[0.01], [0.02]])
    return Toy(BOX, spaces.Box(low, high, dtype=np.float64))


def parts() -> Toy:
    return Toy(PARTS, spaces.Discrete(3))


def picture() -> Toy:
    return Toy(PICTURE, spaces.Discrete(3))


def three(num_envs: int) -> SyncVectorEnv:
    """A vector environment of Gymnasium's; begins anew in the next step."""
    return SyncVectorEnv([discrete] * num_envs)


class Endless(Toy):
    """Its episodes never end."""

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, False, {}


def endless() -> Endless:
    return Endless(BOX, spaces.Discrete(4, start=5))


class Drawing(Toy):
    """Draws how many steps are left."""

    def __init__(self, render_mode: str | None) -> None:
        super().__init__(BOX, spaces.Discrete(4, start=5))
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((30, 40, 3), 20 * self.left, np.uint8)


def drawing(render_mode: str | None = None) -> Drawing:
    return Drawing(render_mode)


class Nudge(TorchLearner):
    """Moves all weights a little."""

    def update(self, batch: Any, call: Invoke) -> dict[str, float]:
        loss = sum(weight.sin().sum() for weight in self.module.parameters())
        self.step(loss)
        return {"loss": loss.item()}


def remembering(total_steps: int = 256) -> Workload:
    """A policy with a memory."""
    return Workload(
        name="remembering",
        actor=RolloutActor("toys_to_load:discrete", RecurrentActorCritic, envs=4),
        learner=Nudge(lr=1e-2),
        triggers={
            "learner.update": DataKeyTrigger(("observations", "rewards"), size=16),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=1, steps=16, total_steps=total_steps,
    )  # fmt: skip
