"""Workloads that wait by the clock, so that a busy machine slows them down as little as possible.

``artos run evaluation/why/planted.py:workload --set step_s=0.02`` steps environments that take 20
milliseconds a step. None of them loads PyTorch, but for ``divided``, whose updates several
processes make together.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import Learner, RolloutActor, TorchLearner, Workload
from artos.actors.context import ActorContext
from artos.buffer.samplers.patterns import Uniform
from artos.protocol.invocations import Invoke
from triggers import DataKeyTrigger, ObjectKeyTrigger, ReplayTrigger, RoundTrigger

_EPISODE = 16


class Still(gym.Env[Any, Any]):
    """Shows zeros; a step takes no time."""

    action_space = spaces.Discrete(2)

    def __init__(self, size: int = 2) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (size,), np.float32)
        self._shown, self._steps = np.zeros(size, np.float32), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode of 16 steps."""
        super().reset(seed=seed)
        self._steps = 0
        return self._shown, {}

    def step(self, action: Any) -> Any:
        """Count the step."""
        self._steps += 1
        return self._shown, 1.0, False, self._steps >= _EPISODE, {}


class Same:
    """A policy that always does the same and looks at nothing."""

    def __init__(self, envs: int) -> None:
        zeros = np.zeros(envs, np.float32)
        self._output = {"actions": np.zeros(envs, np.int64), "log_probs": zeros, "values": zeros}

    def bind(self, flat: Any) -> None:
        """Look at no weights."""

    def act(self, obs: Any, info: Any) -> Any:
        """Actions of zero."""
        return self._output

    def values(self, obs: Any, info: Any) -> Any:
        """Values of zero."""
        return self._output["values"]


class Sleeper(RolloutActor):
    """Takes ``step_s`` for every step; the first actor ``straggle`` times as long."""

    def __init__(self, size: int, step_s: float, straggle: float) -> None:
        super().__init__(f"{__name__}:Still", envs=1, env_args={"size": size})
        self._step_s, self._straggle = step_s, straggle

    def setup(self, context: ActorContext) -> None:
        """Find out whether it is the slow one."""
        super().setup(context)
        self._seconds = self._step_s * (1.0 if context.actor else self._straggle)

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Sleep for as long as a slow environment would take."""
        began = time.perf_counter()
        if self._seconds:
            time.sleep(self._seconds * rows)
        slept = time.perf_counter() - began
        spent = super().sample(start, rows, call)
        return spent | {"environment": spent["environment"] + slept}

    def build_module(self, seed: int) -> Any:
        """There is no network."""
        return None

    def make_policy(self, module: Any, seed: int) -> Any:
        """Always do the same."""
        return Same(self.envs)

    def faults(self, module: Any) -> list[str]:
        """There are none."""
        return []


class Sleeping(Learner):
    """An update takes ``learn_s`` and ``row_s`` for each row; it publishes ``weights`` numbers."""

    def __init__(self, learn_s: float, row_s: float, weights: int) -> None:
        self._learn_s, self._row_s, self._weights = learn_s, row_s, weights

    def setup(self, context: Any) -> None:
        """Make the weights, of random numbers, so that nothing can make them smaller."""
        draws = np.random.default_rng(context.seed)
        self._params = draws.standard_normal(self._weights).astype(np.float32)

    def update(self, batch: Any, call: Invoke) -> dict[str, float]:
        """Sleep."""
        rows = sum(claim.stop - claim.start for claim in call.claims)
        time.sleep(self._learn_s + self._row_s * rows)
        self._params += np.float32(1e-3)
        self.fresh = True
        return {}

    def live(self) -> Any:
        """What is published."""
        return {"params": self._params}

    def layout(self) -> Any:
        """One array."""
        return (("nothing", (self._weights,)),)


class Divided(TorchLearner):
    """An update takes ``row_s`` for each row of its part."""

    replicable = True

    def __init__(self, row_s: float) -> None:
        super().__init__(lr=1e-3)
        self._row_s = row_s

    def update(self, batch: Any, call: Invoke) -> dict[str, float]:
        """Sleep for the rows of this replica, and make a step of no length."""
        time.sleep(self._row_s * len(self.replicas.part(np.arange(len(batch)))))
        self.step(sum(each.sum() for each in self.module.parameters()) * 0.0)
        return {}


def workload(
    actors: int = 2, *, steps: int = 16, total_steps: int = 100_000, n: int | None = None,
    max_lag: int = 0, size: int = 2, step_s: float = 0.0, straggle: float = 1.0,
    learn_s: float = 0.0, row_s: float = 0.0, weights: int = 2,
) -> Workload:  # fmt: skip
    """Actors and a learner that take turns, unless rows may be older or are of ``n`` actors."""
    actor = Sleeper(size, step_s, straggle)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="planted", actor=actor, learner=Sleeping(learn_s, row_s, weights),
        triggers={
            "learner.update": DataKeyTrigger(keys, n=n or actors, size=steps, max_lag=max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=steps, total_steps=total_steps,
    )  # fmt: skip


def replayed(
    actors: int = 2, *, steps: int = 4, total_steps: int = 100_000, batch: int = 16,
    ratio: float = 16.0, step_s: float = 0.0, learn_s: float = 0.0,
) -> Workload:  # fmt: skip
    """The same with a replay buffer, of which each row is drawn ``ratio`` times."""
    actor = Sleeper(2, step_s, 1.0)
    keys = tuple(key.name for key in actor.data_keys())
    draw = ReplayTrigger(keys, Uniform(batch), ratio=ratio, after=32)
    return Workload(
        name="planted-replay", actor=actor, learner=Sleeping(learn_s, 0.0, 2),
        triggers={"learner.update": draw, "actors.sample": RoundTrigger()},
        actors=actors, steps=steps, capacity=20_000, on_full="overwrite",
        total_steps=total_steps,
    )  # fmt: skip


def divided(
    actors: int = 2, *, steps: int = 16, total_steps: int = 100_000, row_s: float = 0.0,
    step_s: float = 0.0,
) -> Workload:  # fmt: skip
    """Updates that several processes can make together."""
    actor = _Timed(step_s)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="divided", actor=actor, learner=Divided(row_s),
        triggers={
            "learner.update": DataKeyTrigger(keys, size=steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=steps, total_steps=total_steps,
    )  # fmt: skip


class _Timed(RolloutActor):
    """A network that acts, and steps that take ``step_s``."""

    def __init__(self, step_s: float) -> None:
        super().__init__(f"{__name__}:Still", envs=1)
        self._step_s = step_s

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Sleep first."""
        time.sleep(self._step_s * rows)
        return super().sample(start, rows, call)
