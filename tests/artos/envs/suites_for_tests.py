"""Environments as other packages make them, in their shapes, not their code."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Pole(gym.Env[Any, Any]):
    """Pays its argument in each of five steps; ``drawn`` says whether its seed decides."""

    action_space = spaces.Discrete(2)
    observation_space: spaces.Space[Any] = spaces.Box(-9, 9, (2,), np.float32)

    def __init__(self, task: str, *, pay: float = 1.0, drawn: bool = False) -> None:
        self.task, self.pay, self.steps = task, pay, 0
        self._drawn = np.random.default_rng() if drawn else None

    def _seen(self) -> Any:
        noise = 0 if self._drawn is None else self._drawn.random()
        return np.array([self.steps, noise], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._seen(), self.pay, self.steps >= 5, False, {}


def pole(task: str = "reach", pay: float = 1.0, drawn: bool = False) -> Pole:
    return Pole(task, pay=pay, drawn=drawn)


class MissionSpace(spaces.Space[str]):
    """Text, as MiniGrid says it: not by Gymnasium's own class."""

    def __init__(self) -> None:
        super().__init__((), str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "go"

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __repr__(self) -> str:
        return "MissionSpace()"


class Told(Pole):
    """Shows a text beside numbers."""

    def __init__(self, text: spaces.Space[Any]) -> None:
        super().__init__("told")
        numbers = spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space = spaces.Dict({"mission": text, "numbers": numbers})

    def _seen(self) -> Any:
        return {"mission": "go", "numbers": super()._seen()}


class Listed(Told):
    """The same in a Tuple."""

    def __init__(self) -> None:
        super().__init__(MissionSpace())
        self.observation_space = spaces.Tuple([*self.observation_space.values()])

    def _seen(self) -> Any:
        return tuple(super()._seen().values())


def listed() -> Listed:
    return Listed()


def told() -> Told:
    return Told(MissionSpace())


def texted() -> Told:
    return Told(spaces.Text(8))


class Torn(Pole):
    """Pays two rewards at once, as MO-Gymnasium's environments."""

    reward_space = spaces.Box(-1, 1, (2,))


def torn() -> gym.Env[Any, Any]:
    return Torn("torn")


class LinearReward(gym.Wrapper[Any, Any, Any, Any]):
    """Called as MO-Gymnasium's, which makes one number of them."""


def mended() -> gym.Env[Any, Any]:
    return LinearReward(Torn("torn"))


class AgentsOfSuperSuit:
    """Two games of two agents, with what SuperSuit's vector environment has."""

    num_envs = 4
    metadata: dict[str, Any] = {}  # noqa: RUF012
    observation_space = spaces.Box(-9, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, apart: bool = False) -> None:
        self.steps, self.apart = 0, apart

    def _rows(self) -> Any:
        return np.full((4, 1), self.steps, np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        self.steps = 0
        return self._rows(), [{}] * 4

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        assert actions.shape == (4,)
        self.steps += 1
        over, infos = np.zeros(4, np.uint8), [{} for _ in range(4)]
        if self.apart:
            over[0] = 1
        elif self.steps == 3:
            over[:], infos = 1, [{"terminal_observation": row} for row in self._rows()]
            self.steps = 0
        return self._rows(), np.arange(4, dtype=np.float32), over, np.zeros(4, np.uint8), infos

    def close(self) -> None:
        pass


AgentsOfSuperSuit.__module__ = "supersuit.vector.concat_vec_env"


def agents() -> AgentsOfSuperSuit:
    return AgentsOfSuperSuit()


def agents_apart() -> AgentsOfSuperSuit:
    return AgentsOfSuperSuit(apart=True)


class Older:
    """Steps as environments of the package gym did."""

    def reset(self) -> Any:
        return np.zeros(2)

    def step(self, action: Any) -> Any:
        return np.zeros(2), 0.0, False, {}


def older() -> Older:
    return Older()
