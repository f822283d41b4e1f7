"""Environments that keep, reuse, write into and misdeclare whatever array passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

Array = np.ndarray[Any, Any]
ACTIONS: dict[str, gym.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "shifted": spaces.Discrete(3, start=2),
    "multidiscrete": spaces.MultiDiscrete([3, 4]),
    "multibinary": spaces.MultiBinary(3),
    "box": spaces.Box(-0.8, 0.8, (2,), np.float64),
}
OBSERVATIONS: dict[str, gym.Space[Any]] = {
    "box": spaces.Box(-1000, 1000, (3,), np.float32),
    "doubles": spaces.Box(-1000, 1000, (3,), np.float64),
    "bytes": spaces.Box(0, 255, (3,), np.uint8),
    "discrete": spaces.Discrete(50, start=-2),
    "multidiscrete": spaces.MultiDiscrete([50, 50, 50], start=[1, 2, 3]),
    "dict": spaces.Dict(
        {"a": spaces.Box(-1000, 1000, (3,), np.float32), 7: spaces.Discrete(50, start=1)}
    ),
    "tuple": spaces.Tuple((spaces.Box(0, 255, (3,), np.uint8), spaces.MultiBinary(3))),
}


@dataclass(frozen=True)
class Habits:
    """What an environment does with arrays. None of it is forbidden by Gymnasium."""

    observations: str = "box"
    actions: str = "discrete"
    reuses: bool = True
    """One array for all observations, also for those of ``reset``."""
    keeps: bool = True
    """Actions of earlier steps are looked at again later."""
    writes: bool = True
    """Into the action that it was given."""
    lists: bool = False
    """Observations are lists, rewards arrays of one number."""
    truncates: bool = True
    length: int = 4


@dataclass
class Told:
    """What an environment says that it showed and got, copied at that moment."""

    shown: list[Any] = field(default_factory=list)
    got: list[Any] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)


class Keeping(gym.Env[Any, Any]):
    """Observes numbers that say its seed, its episode and its step; pays for new actions.

    ``log``: a file of the returns of its episodes, as it has counted them itself.
    """

    def __init__(self, habits: Habits, seed: int = 0, log: Path | None = None) -> None:
        self.habits, self.told = habits, Told()
        self.observation_space = OBSERVATIONS[habits.observations]
        self.action_space = ACTIONS[habits.actions]
        self.seed, self.episode, self.at = seed, -1, 0
        self.kept: list[Any] = []
        self.earned, self.log = 0.0, log
        self._parts: dict[int, Array] = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seed = self.seed if seed is None else seed
        self.episode, self.at, self.kept, self.earned = self.episode + 1, 0, [], 0.0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(np.asarray(action) if np.ndim(action) else action), action
        self.told.got.append(np.array(action))
        self.at += 1
        # Pays for what differs from the action before, as it is now.
        reward = float(bool(self.kept) and not np.array_equal(self.kept[-1], action))
        if self.habits.keeps:
            self.kept.append(action)
        elif self.habits.writes and isinstance(action, np.ndarray) and action.ndim:
            action[...] = 0
        over = self.at == self.habits.length
        self.earned += reward
        if over:
            self.told.returns.append(self.earned)
            if self.log is not None:
                with self.log.open("a") as log:
                    log.write(f"{self.earned}\n")
        paid: Any = np.array([reward]) if self.habits.lists else reward
        cut = self.habits.truncates
        return self._seen(), paid, over and not cut, over and cut, {}

    def _seen(self) -> Any:
        numbers = np.array([self.seed % 7 + 10, self.episode % 30, self.at])
        found = self._as(self.observation_space, numbers)
        self.told.shown.append(_copied(found))
        return found

    def _as(self, space: gym.Space[Any], numbers: Array) -> Any:
        match space:
            case spaces.Dict():
                return {name: self._as(inner, numbers) for name, inner in space.spaces.items()}
            case spaces.Tuple():
                return tuple(self._as(inner, numbers) for inner in space.spaces)
            case spaces.Discrete():
                return int(space.start) + int(numbers[1] + numbers[2])
            case spaces.MultiBinary():
                return self._array_for(space, numbers % 2)
            case spaces.MultiDiscrete():
                return self._array_for(space, space.start + numbers)
        return self._array_for(space, numbers)

    def _array_for(self, space: gym.Space[Any], numbers: Array) -> Any:
        if self.habits.lists:
            return numbers.tolist()
        if not self.habits.reuses:
            return numbers.astype(space.dtype)
        array = self._parts.setdefault(id(space), np.zeros(3, space.dtype))
        array[:] = numbers
        return array


def _copied(seen: Any) -> Any:
    if isinstance(seen, dict):
        return {name: _copied(part) for name, part in seen.items()}
    if isinstance(seen, tuple):
        return tuple(map(_copied, seen))
    return np.array(seen)


class KeepingVector(VectorEnv[Any, Any, Any]):
    """The same as a vector environment whose every array is written again by the next call.

    With ``DISABLED``, a reset writes into all of them, too.
    """

    def __init__(self, habits: Habits, num_envs: int, mode: AutoresetMode, seed: int = 0) -> None:
        self.num_envs = num_envs
        self.envs = [Keeping(habits, seed + i) for i in range(num_envs)]
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.metadata = {"autoreset_mode": mode}
        self._mode, self._over = mode, np.zeros(num_envs, bool)
        shape = (num_envs, 3)
        self._obs = np.zeros(shape, self.single_observation_space.dtype)
        self._rewards, self._ended, self._cut = np.zeros(num_envs), *np.zeros((2, num_envs), bool)
        self._lists = habits.lists

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for i in np.flatnonzero(mask).tolist():
            self._obs[i] = self.envs[i].reset(seed=None if seed is None else seed + i)[0]
        self._rewards[:], self._ended[:], self._cut[:] = -9, False, False
        self._over[:] = False
        return self._shown(self._obs), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        info: dict[str, Any] = {}
        for i, env in enumerate(self.envs):
            if self._mode is AutoresetMode.NEXT_STEP and self._over[i]:
                self._obs[i], self._rewards[i] = env.reset()[0], 0
                self._ended[i] = self._cut[i] = False
            else:
                obs, reward, self._ended[i], self._cut[i], _ = env.step(actions[i])
                self._obs[i], self._rewards[i] = obs, np.ravel(reward)[0]
        self._over[:] = self._ended | self._cut
        if self._mode is AutoresetMode.SAME_STEP and self._over.any():
            info["final_obs"] = self._obs.copy()
            for i in np.flatnonzero(self._over).tolist():
                self._obs[i] = self.envs[i].reset()[0]
        columns = (self._rewards, self._ended, self._cut)
        return self._shown(self._obs), *map(self._shown, columns), info

    def _shown(self, array: Array) -> Any:
        return array.tolist() if self._lists else array


def __getattr__(name: str) -> Any:
    """Factories ``OBSERVATIONS_ACTIONS``, whose environments write their returns to a file here."""
    seen, _, taken = name.partition("_")
    if seen in OBSERVATIONS and taken in ACTIONS:
        habits = Habits(seen, taken, length=6)
        return lambda: Keeping(habits, log=Path.cwd() / f"{name}.returns")
    raise AttributeError(name)
