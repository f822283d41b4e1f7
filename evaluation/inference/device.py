"""Acting by answers that take their time, and none of the CPU's, as those of a device do.

``artos run evaluation/inference/device.py:workload --set splits=2``
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.actors.asking import AskingActor
from artos.policies.build import Policy
from artos.policies.inference import Inference
from artos.specs.servers import ServerContext
from artos.specs.workload import Workload
from evaluation.workloads import acting


class Device(Inference):
    """Says nothing of any row, so all actions are alike, and takes ``seconds`` for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def setup(self, context: ServerContext) -> None:
        """See what an answer is made of."""
        super().setup(context)
        self._keys = self.answers(context.actor)

    def answer(self, asked: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Zeros for each row, later."""
        rows = len(next(iter(asked.values())))
        time.sleep(self.seconds)
        return {key.name: np.zeros((rows, *key.shape), key.dtype) for key in self._keys}


def workload(
    env: str = "ALE/Pong-v5", actors: int = 1, total_steps: int = 40_000, *,
    envs: int = 16, steps: int = 64, splits: int = 1, seconds: float = 0.002,
) -> Workload:  # fmt: skip
    """An actor that asks for its actions, and a learner that does nothing."""
    made = acting.workload(env, actors, total_steps, envs=envs, steps=steps)
    actor = AskingActor(env, Policy(), envs, splits=splits, server=Device(seconds))
    return replace(made, actor=actor)


def most_gain(stepping: float, waiting: float) -> float:
    """How many times as fast two splits can be, of seconds of a row without: of steps and waits.

    A row takes the longest of three: all its steps, one after the other; an answer and the steps of
    one half, which nobody can ask for sooner; and two answers, as the server gives one at a time.
    So most is gained, half as much again, where an answer takes as long as the steps of one half.
    """
    return (stepping + waiting) / max(stepping, waiting + stepping / 2, 2 * waiting)
