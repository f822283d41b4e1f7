"""A user's environments: every kind of space and autoreset, and every way to misbehave."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Toy(gym.Env[Any, Any]):
    """Episodes of 20 steps with reward 1; observations and actions are whatever it is told."""

    def __init__(self, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions
        self.steps = 0

    def look(self) -> Any:
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.observation_space.seed(seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        return self.look(), 1.0, self.steps == 20, False, {}


BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
TWO = spaces.Discrete(2)


def plain() -> Toy:
    return Toy(BOX, TWO)


def discrete() -> Toy:
    return Toy(spaces.Discrete(5), TWO)


def multidiscrete() -> Toy:
    return Toy(spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 3]))


def parts() -> Toy:
    return Toy(spaces.Dict({"where": BOX, "what": spaces.Discrete(3)}), TWO)


def continuous() -> Toy:
    return Toy(BOX, spaces.Box(-2.0, 2.0, (2,), np.float32))


def next_step(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([plain] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def disabled(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([plain] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


# -- misbehaving -------------------------------------------------------------------------------


class Faulty(Toy):
    """Misbehaves from its 40th step on, in the middle of its second episode."""

    def __init__(self) -> None:
        super().__init__(BOX, TWO)
        self.taken = 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        return self.misbehave() if self.taken > 39 else super().step(action)

    def misbehave(self) -> Any:
        raise NotImplementedError


class Raising(Faulty):
    def misbehave(self) -> Any:
        raise RuntimeError("the physics exploded")


class NotANumber(Faulty):
    def misbehave(self) -> Any:
        return np.array([0.0, np.nan, 0.0], np.float32), 1.0, False, False, {}


class Hanging(Faulty):
    def misbehave(self) -> Any:
        time.sleep(1000)


class Crashing(Faulty):
    def misbehave(self) -> Any:
        os.abort()


class RaisingTwice(Faulty):
    """The first two processes fail, later ones do not: each leaves a mark in the folder."""

    def misbehave(self) -> Any:
        marks = len(list(Path().glob("mark-*")))
        if marks < 2 and self.taken == 40:
            Path(f"mark-{marks}").touch()
            raise RuntimeError("not my day")
        self.taken = 0
        return Toy.step(self, 0)


class FailingToReset(Toy):
    """Fails when seeded as in a run, not as by registration."""

    def __init__(self) -> None:
        super().__init__(BOX, TWO)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed:
            raise RuntimeError("no reset today")
        return super().reset(seed=seed, options=options)


class Evaluated(Toy):
    """Misbehaves in the process that evaluates, and nowhere else."""

    def __init__(self) -> None:
        super().__init__(BOX, TWO)

    def step(self, action: Any) -> Any:
        if self.steps == 0 and Path("/proc/self/fd/1").readlink().name == "evaluator.log":
            self.misbehave()
        return super().step(action)

    def misbehave(self) -> None:
        raise RuntimeError("nobody may watch")


class Held(Evaluated):
    """Its first step waits while there is a file ``hold``, and says so."""

    def misbehave(self) -> None:
        end = time.monotonic() + 120
        while Path("hold").exists() and time.monotonic() < end:
            Path("held").touch()
            time.sleep(0.01)


def broken() -> Toy:
    raise ValueError("no such level")


def no_environment() -> int:
    return 3
