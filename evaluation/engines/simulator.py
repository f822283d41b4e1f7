"""A user's own workload whose actors need a CPU of their node each, and whose learner keeps a book.

A step sleeps for some milliseconds, so that nodes that share this machine's CPUs are as independent
as nodes are; an actor has its slot of its node meanwhile, so actors that share slots take turns.

The learner writes a line for each update: the time, the rows it has learned from, rows that are
missing between what it was handed over before and now, and how often an environment began anew.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import Learner, RolloutActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

STEPS, STEP_SECONDS = 16, 0.004


class Simulator(gym.Env[Any, Any]):
    """Shows how many observations it has shown; an episode takes 50 steps."""

    observation_space = spaces.Box(0, 2**62, (1,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.shown, self.steps = 0, 0

    def _look(self) -> Any:
        return np.array([self.shown], np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin the next episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def step(self, action: int) -> Any:
        """Take a while."""
        time.sleep(STEP_SECONDS)
        self.shown += 1
        self.steps += 1
        return self._look(), 1.0, False, self.steps == 50, {}


def make(seed: int) -> Simulator:
    """An environment; the same for every seed."""
    return Simulator()


class Still:
    """A policy that always does the same and looks at nothing."""

    def __init__(self, envs: int) -> None:
        zeros = np.zeros(envs, np.float32)
        self.output = {"actions": np.zeros(envs, np.int64), "log_probs": zeros, "values": zeros}

    def bind(self, flat: Any) -> None:
        """It has no weights."""

    def act(self, obs: Any, info: Any) -> Any:
        """The same."""
        return self.output

    def values(self, obs: Any, info: Any) -> Any:
        """Zeros."""
        return self.output["values"]


class Walker(RolloutActor):
    """Steps its environment without a network, so that its process need not load PyTorch."""

    def build_module(self, seed: int) -> Any:
        """None."""

    def make_policy(self, module: Any, seed: int) -> Any:
        """A policy that does nothing."""
        return Still(self.envs)

    def faults(self, module: Any) -> list[str]:
        """None."""
        return []


class Bookkeeper(Learner):
    """Learns nothing of use."""

    parameters = 2

    def __init__(self, book: str) -> None:
        self._book = book

    def setup(self, context: Any) -> None:
        """Nothing has come yet."""
        self.params = np.zeros(self.parameters, np.float32)
        self._rows = self._missing = self._anew = 0
        self._next: dict[int, int] = {}
        self._shown: dict[int, int] = {}

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        """Write down what came."""
        for claim, rows in zip(batch.claims, batch.gather("observations"), strict=True):
            self._missing += abs(claim.start - self._next.get(claim.actor, claim.start))
            self._next[claim.actor] = claim.stop
            for row in rows:
                shown = int(row.flat[0])
                self._anew += shown != self._shown.get(claim.actor, shown - 1) + 1
                self._shown[claim.actor] = shown
            self._rows += len(rows)
        with Path(self._book).open("a") as book:
            print(time.time(), self._rows, self._missing, self._anew, file=book)
        self.fresh = True
        return {"rows": float(self._rows)}

    def live(self) -> Any:
        """Its weights."""
        return {"params": self.params}

    def layout(self) -> Any:
        """One array of weights."""
        return (("nothing", (self.parameters,)),)


def workload(actors: int = 4, book: str = "book", total_steps: int = 10**9) -> Workload:
    """Every update takes a round of every actor that is there."""
    actor = Walker("simulator:make", envs=1)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="simulator",
        actor=actor,
        learner=Bookkeeper(book),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=STEPS, max_lag=1),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=STEPS,
        total_steps=total_steps,
    )
