"""A game of two agents that choose numbers within bounds, and see other things."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Near(ParallelEnv[str, Any, Any]):
    """Each agent sees its number, ``b`` also a second one, and is paid for naming the first."""

    metadata: ClassVar[dict[str, Any]] = {"name": "near"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (1 + (agent == "b"),), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents, self.at = [*self.possible_agents], 0
        return self._show(), {agent: {} for agent in self.agents}

    def _show(self) -> Any:
        self.seen = {
            agent: self._random.uniform(-1, 1, self.observation_space(agent).shape)
            for agent in self.possible_agents
        }
        return {agent: values.astype(np.float32) for agent, values in self.seen.items()}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        rewards = {a: -float(abs(actions[a][0] - self.seen[a][0])) for a in self.agents}
        self.at += 1
        ends, goes_on = dict.fromkeys(self.agents, self.at == 5), dict.fromkeys(self.agents, False)
        found = self._show(), rewards, goes_on, ends, {agent: {} for agent in self.agents}
        if self.at == 5:
            self.agents = []
        return found


def parallel_env() -> Near:
    return Near()
