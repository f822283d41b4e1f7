"""SAC on a pendulum whose steps take a while: sampling and learning at once, or in turn.

``artos run evaluation/workloads/pendulum.py:sequential`` updates once all actors have sampled a
round, and samples once the updates are done, as paper Figure 5 shows other frameworks to do.
``pendulum.py:concurrent`` is the same with the triggers of ``artos run sac``. Both make the same
updates: neither learner runs ahead of its rows by more than a round. With ``uneven=true`` few steps
are long, so who waits for all actors waits for the slowest.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from artos.specs.workload import Workload
from triggers import ObjectKeyTrigger, ReplayTrigger
from triggers.algorithms import sac

MEAN_SECONDS = 0.005
"""Mean time of a step beyond its computation: a round of two actors, each on a CPU of its own, then
takes about as long as its updates, of some 5 ms each. How long both took is in an answer."""
SIGMA = 1.5
"""Of uneven steps, whose times are log-normal: one in a hundred takes ten times the mean."""
BATCH, STEPS, UPDATES = 256, 8, 8


class Slow(gym.Wrapper[Any, Any, Any, Any]):
    """Steps take as long as those of a simulator or a device that computes elsewhere."""

    def __init__(self, env: gym.Env[Any, Any], seconds: Callable[[np.random.Generator], float]):
        super().__init__(env)
        self._seconds = seconds

    def step(self, action: Any) -> Any:
        """As the environment, later."""
        time.sleep(self._seconds(self.np_random))
        return self.env.step(action)


def even() -> gym.Env[Any, Any]:
    """One Pendulum-v1 whose steps take 0 to twice the mean, uniformly."""
    return Slow(gym.make("Pendulum-v1"), lambda random: random.uniform(0, 2 * MEAN_SECONDS))


def uneven() -> gym.Env[Any, Any]:
    """One Pendulum-v1 of whose steps few are long."""
    middle = np.log(MEAN_SECONDS) - SIGMA**2 / 2  # so that the mean is the same
    return Slow(gym.make("Pendulum-v1"), lambda random: random.lognormal(middle, SIGMA))


def concurrent(actors: int = 2, total_steps: int = 2_048, *, uneven: bool = False) -> Workload:
    """Actors sample on while the learner makes its updates; either may be a round ahead."""
    return _sac(actors, total_steps, uneven, "sac-at-once")


def sequential(actors: int = 2, total_steps: int = 2_048, *, uneven: bool = False) -> Workload:
    """A round of all actors, then ``UPDATES`` updates, and so on."""
    workload = _sac(actors, total_steps, uneven, "sac-in-turn")
    triggers = {**workload.triggers, "actors.sample": ObjectKeyTrigger("model_param")}
    return dataclasses.replace(workload, triggers=triggers)


def due(total_steps: int, actors: int = 2) -> int:
    """The updates of a run of so many steps."""
    return total_steps * UPDATES // (actors * STEPS)


def _sac(actors: int, total_steps: int, uneven: bool, name: str) -> Workload:
    rows = actors * STEPS
    workload = sac.workload(
        f"evaluation.workloads.pendulum:{'uneven' if uneven else 'even'}",
        actors,
        total_steps,
        steps=STEPS,
        batch=BATCH,
        after=rows,
        ratio=float(np.ceil(UPDATES * BATCH / rows)),
        sync=UPDATES,
    )
    update = workload.triggers["learner.update"]
    # All that is due after a round may be drawn at once, and nothing beyond.
    slack = float(UPDATES * BATCH)
    limited = ReplayTrigger(update.keys, update.sample, update.ratio, update.after, slack=slack)
    triggers = {**workload.triggers, "learner.update": limited}
    return dataclasses.replace(workload, name=name, triggers=triggers)
