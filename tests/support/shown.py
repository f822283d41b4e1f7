"""Demonstrations for CartPole, as a user might make them: a simple rule that keeps the pole up."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np

from artos.specs.keys import DataKey

_KEYS = (
    DataKey("observations", (4,)), DataKey("actions", (), "int64"), DataKey("rewards"),
    DataKey("terminations", (), "bool"), DataKey("truncations", (), "bool"),
    DataKey("valid", (), "bool"), DataKey("ages", (), "uint8"),
)  # fmt: skip


def demonstrate(path: Path, episodes: int = 5) -> int:
    """Write a data set of whole episodes of 500 steps; returns the number of its rows."""
    env, rows = gym.make("CartPole-v1"), []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        age, over = 0, False
        while not over:
            action = int(obs[2] + 0.5 * obs[3] + 0.05 * obs[0] + 0.1 * obs[1] > 0)
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, reward, terminated, truncated, True, min(age, 255)))
            obs, age, over = following, age + 1, terminated or truncated
        rows.append((obs, 0, 0.0, False, False, False, min(age, 255)))
    env.close()
    columns = zip(_KEYS, zip(*rows, strict=True), strict=True)
    np.savez(path, **{key.name: np.array(values, key.dtype) for key, values in columns})
    return len(rows)
