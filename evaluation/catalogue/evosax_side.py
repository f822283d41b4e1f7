"""One training run of evosax: mean returns in each tenth of its steps.

``python -m evaluation.catalogue.evosax_side "ES, CartPole" 1 200000``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import optax
from evosax.algorithms import Open_ES
from numpy.typing import NDArray

from evaluation.baselines.timing import answer
from evaluation.catalogue.told import Told
from evaluation.references.curves import parts
from evaluation.references.every_task import EVERY
from evaluation.references.task import Task

Floats = NDArray[Any]
_SMALL = 0.01


class Network:
    """Layers with tanh between them, first orthogonal as ours; the largest output is the action."""

    def __init__(self, sides: Sequence[int], seed: int) -> None:
        self._shapes = [*pairwise(sides)]
        rng, self.first = np.random.default_rng(seed), list[Floats]()
        for number, shape in enumerate(self._shapes, 1):
            gain = _SMALL if number == len(self._shapes) else 2**0.5
            square, _ = np.linalg.qr(rng.standard_normal((max(shape), max(shape))))
            self.first += [gain * square[: shape[0], : shape[1]].ravel(), np.zeros(shape[1])]

    def action(self, flat: Floats, seen: Floats) -> int:
        """The choice of these parameters."""
        at = 0
        for number, (inside, outside) in enumerate(self._shapes):
            seen = np.tanh(seen) if number else seen
            weight = flat[at : at + inside * outside].reshape(inside, outside)
            at += inside * outside
            seen = seen @ weight + flat[at : at + outside]
            at += outside
        return int(seen.argmax())


def tried(env: Told, network: Network, flat: Floats, steps: int, seed: int) -> float:
    """The mean return of whole episodes within so many steps, else what was paid till then."""
    seen, _ = env.reset(seed=seed)
    found, paid = list[float](), 0.0
    for _ in range(steps):
        seen, reward, ended, cut, _ = env.step(network.action(flat, seen))
        paid += float(reward)
        if ended or cut:
            found.append(paid)
            seen, paid = env.reset()[0], 0.0
    return float(np.mean(found)) if found else paid


def run(task: Task, seed: int, steps: int) -> list[float]:
    """Train with this seed; returns the curve."""
    given, env = task.theirs, Told(gym.make(task.env))
    space: Any = env.observation_space
    choices: Any = env.action_space
    network = Network([*space.shape, *given["hidden"], int(choices.n)], seed)
    first = np.concatenate(network.first).astype(np.float32)
    adam = optax.adamw(given["lr"], weight_decay=given["weight_decay"])
    deviation = optax.constant_schedule(given["sigma"])
    algorithm = Open_ES(given["envs"], first, optimizer=adam, std_schedule=deviation)
    key, rng = jax.random.key(seed), np.random.default_rng(seed)
    params = algorithm.default_params
    state = algorithm.init(key, first, params)
    while env.steps < steps:
        key, asked, told = jax.random.split(key, 3)
        population, state = algorithm.ask(asked, state, params)
        returns = [
            tried(env, network, each, given["steps"], int(rng.integers(2**31)))
            for each in np.asarray(population)
        ]
        state, _ = algorithm.tell(told, population, -np.asarray(returns), state, params)
    # In the order of rounds, as if all had been tried at the same time.
    return parts(env.at, env.returns, steps, task.low)


def main() -> None:
    """Train once."""
    name, seed, steps = sys.argv[1:]
    curve = run(EVERY[name], int(seed), int(steps))
    packages = ("evosax", "jax", "gymnasium")
    answer({str(number): value for number, value in enumerate(curve)}, packages)


if __name__ == "__main__":
    main()
