"""One training run of Stable-Baselines3: mean returns in each tenth of its steps.

``python -m evaluation.references.sb3_side "DQN, CartPole" 1 50000``
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from evaluation.baselines.timing import answer
from evaluation.references.curves import parts
from evaluation.references.every_task import EVERY
from evaluation.references.task import CONTRIB, POLICY_EPS, Task


class Episodes:
    """Notes when episodes ended, and their returns."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.returns: list[float] = []

    def step(self, there: dict[str, Any], _: dict[str, Any]) -> bool:
        """A callback for ``learn``."""
        for info in there["infos"]:
            if ended := info.get("episode"):
                self.steps.append(float(there["self"].num_timesteps))
                self.returns.append(float(ended["r"]))
        return True


def make(env: str) -> gym.Env[Any, Any]:
    """One environment."""
    module, colon, name = env.partition(":")
    made: gym.Env[Any, Any] = getattr(import_module(module), name)() if colon else gym.make(env)
    return made


def run(task: Task, seed: int, steps: int) -> list[float]:
    """Train with this seed; returns the curve."""
    given = dict(task.theirs)
    contrib = task.rival == CONTRIB
    kind = getattr(
        import_module("sb3_contrib" if contrib else "stable_baselines3"), given.pop("algorithm")
    )
    envs = VecMonitor(DummyVecEnv([lambda: make(task.env)] * given.pop("envs")))
    if (noise := given.pop("noise", 0.0)) > 0:  # added to actions of -1 to 1, as ours
        none = np.zeros(envs.action_space.shape or ())
        given["action_noise"] = NormalActionNoise(none, none + noise)
    if (her := given.pop("her", 0.0)) > 0:
        given["replay_buffer_class"] = HerReplayBuffer
        given["replay_buffer_kwargs"] = {"n_sampled_goal": round(her / (1 - her))}
    policy = _policy(kind.__name__, envs.observation_space)
    model, episodes = kind(policy, envs, seed=seed, device="cpu", **given), Episodes()
    for group in getattr(model, "actor", model.policy).optimizer.param_groups:
        group["eps"] = POLICY_EPS
    model.learn(steps, callback=episodes.step)
    return parts(episodes.steps, episodes.returns, steps, task.low)


def _policy(algorithm: str, seen: gym.Space[Any]) -> str:
    """The name of a policy that has a memory, sees several parts, or neither."""
    if algorithm == "RecurrentPPO":
        return "MlpLstmPolicy"
    return "MultiInputPolicy" if isinstance(seen, gym.spaces.Dict) else "MlpPolicy"


def main() -> None:
    """Train once."""
    torch.set_num_threads(1)
    name, seed, steps = sys.argv[1:]
    curve = run(EVERY[name], int(seed), int(steps))
    packages = ("stable-baselines3", "sb3-contrib", "torch", "gymnasium")
    answer({str(number): value for number, value in enumerate(curve)}, packages)


if __name__ == "__main__":
    main()
