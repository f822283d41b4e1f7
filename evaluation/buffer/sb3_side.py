"""Replay buffer of Stable-Baselines3: rows written and sampled per second, uniform only.

A row is an observation and the next observation, 56 KB, written for 8 environments at a time.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer

from evaluation.baselines.timing import answer, one_core, rate
from evaluation.buffer.workload import ACTIONS, BATCH, SHAPE, observations, options

ENVS = 8


def main() -> None:
    """Measure once."""
    chosen = options(__doc__)
    one_core()
    torch.set_num_threads(1)
    space = gym.spaces.Box(0, 255, SHAPE, np.uint8)
    buffer = ReplayBuffer(
        chosen.capacity, space, gym.spaces.Discrete(ACTIONS), device="cpu", n_envs=ENVS
    )
    rows = observations(ENVS)
    actions, rewards = np.zeros((ENVS, 1), np.int64), np.zeros(ENVS)

    def write() -> None:
        buffer.add(rows, rows, actions, rewards, rewards, [{}] * ENVS)

    for _ in range(chosen.capacity // ENVS):
        write()
    rates = {
        "write": rate(write, ENVS, chosen.seconds),
        "uniform": rate(lambda: buffer.sample(BATCH), BATCH, chosen.seconds),
    }
    answer(rates, ("stable-baselines3", "torch", "numpy"))


if __name__ == "__main__":
    main()
