"""SAC on a pendulum whose steps take a while: sampling and learning at once, or in turn.

``artos run evaluation/workloads/pendulum.py:sequential`` updates once all actors have sampled a
round, and samples once the updates are done, as paper Figure 5 shows other frameworks to do.
``pendulum.py:concurrent`` is the same with the triggers of ``artos run sac``.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import gymnasium as gym
import numpy as np

from artos.spec import Workload
from triggers import ObjectKeyTrigger, ReplayTrigger
from triggers.algorithms import sac

MEAN_SECONDS = 0.008
"""Mean time of a step beyond its computation: 0 to twice as much, uniformly."""
BATCH, STEPS, UPDATES = 256, 8, 8


class Slow(gym.Wrapper[Any, Any, Any, Any]):
    """Steps take as long as those of a simulator or a device that computes elsewhere."""

    def step(self, action: Any) -> Any:
        """As the environment, later."""
        time.sleep(float(self.np_random.uniform(0, 2 * MEAN_SECONDS)))
        return self.env.step(action)


def make() -> gym.Env[Any, Any]:
    """One Pendulum-v1 with slow steps."""
    return Slow(gym.make("Pendulum-v1"))


def concurrent(actors: int = 4, total_steps: int = 2_048) -> Workload:
    """Actors sample on while the learner makes its updates."""
    rows = actors * STEPS
    return sac.workload(
        "evaluation.workloads.pendulum:make",
        actors,
        total_steps,
        steps=STEPS,
        batch=BATCH,
        after=rows,
        ratio=float(np.ceil(UPDATES * BATCH / rows)),
        sync=UPDATES,
    )


def sequential(actors: int = 4, total_steps: int = 2_048) -> Workload:
    """A round of all actors, then ``UPDATES`` updates, and so on."""
    workload = concurrent(actors, total_steps)
    update = workload.triggers["learner.update"]
    # All that is due after a round may be drawn at once, and nothing beyond.
    in_turn = ReplayTrigger(
        update.keys, update.sample, update.ratio, update.after, slack=float(UPDATES * BATCH)
    )
    triggers = {"learner.update": in_turn, "actors.sample": ObjectKeyTrigger("model_param")}
    return dataclasses.replace(workload, name="sac-in-turn", triggers=triggers)
