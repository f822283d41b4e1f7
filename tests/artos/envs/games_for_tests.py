"""A game whose agents are out one after the other, in PettingZoo's parallel form."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Guessing(ParallelEnv[str, Any, Any]):
    """Each agent sees a cue of its own and is paid for repeating it; agent i is out after 2 + i.

    If they are ``late``, agent 0 comes after a step, and comes back for one when it has been out
    for one, if it is not the last. Observes (cue, step, number of the agent), in an array per agent
    that the game goes on writing.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "guessing"}

    def __init__(
        self, agents: int = 3, *, masked: bool = False, uneven: bool = False, late: bool = False
    ) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        self._masked, self._uneven, self._late = masked, uneven, late
        self._random = np.random.default_rng()
        self.closed = False

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 100, (4 if self._uneven and agent.endswith("1") else 3,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.at, self.agents = 0, self.possible_agents[self._late :]
        self._seen = {
            agent: np.array(
                [
                    self._random.integers(2),
                    0,
                    *[number] * (self.observation_space(agent).shape[0] - 2),
                ],
                np.float32,
            )
            for number, agent in enumerate(self.possible_agents)
        }
        return {agent: self._seen[agent] for agent in self.agents}, self._infos()

    def _infos(self) -> Any:
        if not self._masked:
            return {agent: {} for agent in self.agents}
        masks = {a: np.eye(2, dtype=np.int8)[int(self._seen[a][0])] for a in self.agents}
        return {agent: {"action_mask": mask} for agent, mask in masks.items()}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        assert actions.keys() == {*self.agents}, "who is out is not asked"
        self.at += 1
        for seen in self._seen.values():
            seen[1] = self.at
        there = self.agents
        rewards = {agent: float(actions[agent] == self._seen[agent][0]) for agent in there}
        over = {agent: self.at >= 2 + int(agent[-1]) for agent in there}
        infos = self._infos()
        self.agents = [agent for agent in there if not over[agent]]
        seen = {agent: self._seen[agent] for agent in there}
        if self._late and self.at in (1, 3) and self.agents:
            self.agents = [self.possible_agents[0], *self.agents]
            seen[self.agents[0]] = self._seen[self.agents[0]]
        return seen, rewards, over, dict.fromkeys(there, False), infos

    def close(self) -> None:
        self.closed = True


def parallel_env(agents: int = 3, masked: bool = False, uneven: bool = False) -> Guessing:
    return Guessing(agents, masked=masked, uneven=uneven)
