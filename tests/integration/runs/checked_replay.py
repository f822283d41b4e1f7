"""A user's off-policy learner that knows its environment and checks every row it is given."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from artos import Prioritised, RolloutActor, Sequences, TorchLearner, Uniform, Workload
from triggers import ReplayTrigger, RoundTrigger

GAMMA = 0.9
KEYS = ("observations", "rewards", "terminations", "truncations")
DEADLY = 300
"""Steps after which the process of the environment ``deadly`` ends, once."""


def rule(player: int, episode: int) -> tuple[int, bool, bool]:
    """How long an episode is, whether it terminates, and whether it is truncated."""
    rng = np.random.default_rng([player, episode])
    kind = rng.integers(3)
    return int(rng.integers(1, 7)), bool(kind != 1), bool(kind != 0)


class Ruled(gym.Env[Any, Any]):
    """Observes who plays, which episode it is, and its step; the reward is the number of both."""

    observation_space = spaces.Box(0, 1e6, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, deadly: bool = False) -> None:
        self.player, self.episode, self.at, self.steps = 0, -1, 0, 0
        self.deadly = deadly

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.player = self.player if seed is None else seed % 2**16
        self.episode, self.at = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.deadly and self.steps == DEADLY and _first_time():
            os._exit(9)  # a clone cannot kill itself: it is the first of its PID namespace
        length, terminates, is_cut = rule(self.player, self.episode)
        assert self.at < length, "stepped beyond its end"
        self.at += 1
        over = self.at == length
        return self._seen(), reward(self.episode, self.at), over and terminates, over and is_cut, {}

    def _seen(self) -> Any:
        return np.array([self.player, self.episode, self.at], np.float32)


def reward(episode: int, step: int) -> float:
    """Of the step that leads there."""
    return float(episode % 100 + step)


def _first_time() -> bool:
    try:
        Path("killed").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def single() -> Ruled:
    return Ruled()


def deadly() -> Ruled:
    return Ruled(deadly=True)


def vector(mode: AutoresetMode, num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([Ruled] * num_envs, autoreset_mode=mode)


def disabled(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.DISABLED, num_envs)


def next_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.NEXT_STEP, num_envs)


def same_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return vector(AutoresetMode.SAME_STEP, num_envs)


class Checking(TorchLearner):
    """Fits the critic to returns, and counts rows that are not what happened."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        self._counts = {"wrong": 0, "checked": 0, "ended": 0, "bootstrapped": 0}

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        check = self._window if "mask" in batch else partial(self._row, n=3)
        for at in range(len(batch.index)):
            self._counts["checked"] += 1
            self._counts["wrong"] += not check(batch, at)
        rows = batch["observations"].reshape(-1, 3)
        values = self.module.value({"observations": torch.from_numpy(rows)})
        self.step((values - 1.0).square().mean())
        return {name: float(count) for name, count in self._counts.items()}

    def _row(self, batch: Any, at: int, n: int) -> bool:
        player, episode, step = (int(part) for part in batch["observations"][at])
        length, terminates, _ = rule(player, episode)
        *same, later = (int(part) for part in batch["next.observations"][at])
        ahead = later - step
        over = later == length
        self._counts["ended"] += over
        self._counts["bootstrapped"] += over and not terminates
        returns = sum(GAMMA**i * reward(episode, step + i + 1) for i in range(ahead))
        discount = 0.0 if over and terminates else GAMMA**ahead
        return (
            same == [player, episode]
            and 1 <= ahead <= min(n, length - step)
            and bool(np.isclose(batch["n_step.returns"][at], returns, rtol=1e-4))
            and bool(np.isclose(batch["n_step.discounts"][at], discount))
        )

    def _window(self, batch: Any, at: int) -> bool:
        rows, mask = batch["observations"][at].astype(int), batch["mask"][at]
        fine = bool(mask[0])
        for here, after in ((rows[i], rows[i + 1]) for i in np.flatnonzero(mask[:-1])):
            length, terminates, _ = rule(int(here[0]), int(here[1]))
            over = after[2] == length
            self._counts["ended"] += over
            self._counts["bootstrapped"] += over and not terminates
            fine = fine and bool((after - here == [0, 0, 1]).all()) and after[2] <= length
        return fine


PATTERNS = {
    "uniform": Uniform(64, 3, GAMMA),
    "prioritised": Prioritised(64, n_step=3, gamma=GAMMA),
    "sequences": Sequences(16, 4),
}


def checked(
    env: str = "checked_replay:single", pattern: str = "uniform", total_steps: int = 3_000
) -> Workload:
    """Nothing in it says that final observations are wanted, but the trigger that draws."""
    return Workload(
        name="checked",
        actor=RolloutActor(env, envs=2),
        learner=Checking(lr=0.01),
        triggers={
            "learner.update": ReplayTrigger(KEYS, PATTERNS[pattern], ratio=4.0, after=500),
            "actors.sample": RoundTrigger(),
        },
        actors=2,
        steps=16,
        capacity=200,
        on_full="overwrite",
        total_steps=total_steps,
    )
