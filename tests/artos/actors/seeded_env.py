"""Environments that draw by all kinds of generators, each seeded with what ``reset`` is given."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv

SEEN = np.zeros(1, np.float32)
MADE: list[Any] = []
"""All that were made, for tests to look into."""


def generators(seed: int | None) -> list[Any]:
    if seed is None:
        return []
    return [
        np.random.default_rng(seed),
        np.random.RandomState(seed),
        random.Random(seed),
        torch.Generator().manual_seed(seed),
    ]


class Seeded(gym.Env[Any, Any]):
    """Episodes of one step."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        MADE.append(self)
        self.drawn: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.drawn = generators(seed) or self.drawn
        return SEEN, {}

    def step(self, action: Any) -> Any:
        return SEEN, 0.0, True, False, {}


def alone() -> Seeded:
    return Seeded()


class SeededGame(ParallelEnv[str, Any, Any]):
    """Two agents, and rounds of one step."""

    metadata: ClassVar[dict[str, Any]] = {"name": "seeded"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]

    def __init__(self) -> None:
        MADE.append(self)
        self.drawn: list[Any] = []

    def observation_space(self, agent: str) -> Any:
        return Seeded.observation_space

    def action_space(self, agent: str) -> Any:
        return Seeded.action_space

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = [*self.possible_agents]
        self.drawn = generators(seed) or self.drawn
        return dict.fromkeys(self.agents, SEEN), {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        there, self.agents = self.agents, []
        seen, over = dict.fromkeys(there, SEEN), dict.fromkeys(there, True)
        infos: dict[str, Any] = {agent: {} for agent in there}
        return seen, dict.fromkeys(there, 0.0), over, dict.fromkeys(there, False), infos


def parallel_env() -> SeededGame:
    return SeededGame()
