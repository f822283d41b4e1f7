"""A run on Ray: actors that have a CPU each, and a learner that takes what any of them brings.

It takes what is there, so that a run which waits for more CPUs works with those that it has.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import ray

from evaluation.engines.simulator import STEPS, Simulator


class Walker:
    """Steps its environment, as the one of ARTOS does."""

    def __init__(self) -> None:
        self._env = Simulator()
        self._env.reset()

    def sample(self, params: Any) -> dict[str, Any]:
        """The next rows."""
        found: dict[str, list[Any]] = {"observations": [], "rewards": [], "dones": []}
        for _ in range(STEPS):
            obs, reward, _, over, _ = self._env.step(0)
            for key, value in zip(found, (obs, reward, over), strict=True):
                found[key].append(value)
            if over:
                self._env.reset()
        return {key: np.array(values) for key, values in found.items()}


def run(actors: int, steps: int) -> None:
    """Sample so many steps."""
    made = [ray.remote(num_cpus=1)(Walker).remote() for _ in range(actors)]
    params, taken = np.zeros(2, np.float32), 0
    under_way = {each.sample.remote(params): each for each in made}
    while taken < steps:
        (first,), _ = ray.wait([*under_way])
        actor, rows = under_way.pop(first), ray.get(first)
        taken += len(rows["rewards"])
        under_way[actor.sample.remote(params)] = actor


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    run(*map(int, sys.argv[1:]))
