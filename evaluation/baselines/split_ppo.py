"""The one-file PPO in two parts: a sampler in each actor, and a learner that joins their rounds.

This module does not depend on what starts the samplers or carries rounds and weights. Rounds and
weights are NumPy arrays, which shared-memory stores such as Ray's pass on without copying.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from evaluation.baselines.one_file_ppo import Array, Loop, Nature, Rollout, Settings

Weights = Mapping[str, Array]
MODULES = (__name__, "ale_py")
"""What the process of a sampler imports, and may import ahead."""


@dataclass(frozen=True)
class Round:
    """One sampler's round with one version of the weights.

    ``rows`` are the arrays of a ``Rollout``, (steps, envs, ...); ``observation`` and ``done``,
    (envs, ...), follow the last row. ``seconds`` is the time spent acting, ``returns`` are those of
    the episodes that ended.
    """

    rows: Mapping[str, Array]
    observation: Array
    done: Array
    seconds: float
    returns: tuple[float, ...] = ()


class Sampler:
    """Environments and a network that acts in them, on one thread; ready once constructed."""

    def __init__(self, settings: Settings, seed: int) -> None:
        torch.set_num_threads(1)
        self._loop = Loop(settings, seed, threads=1, learns=False)

    def pid(self) -> int:
        """Its process id; an answer also means that everything is built."""
        return os.getpid()

    def sample(self, weights: Weights) -> Round:
        """Sample one round with these weights."""
        loop = self._loop
        with warnings.catch_warnings():  # Ray's arrays cannot be written, and nobody does
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            tensors = {n: torch.as_tensor(value) for n, value in weights.items()}
        loop.network.load_state_dict(tensors, assign=True)
        if isinstance(loop.network, Nature):  # weights come in the usual layout
            loop.network.to(memory_format=loop.network.layout)  # type: ignore[call-overload]
        loop.returns.clear()
        began = time.perf_counter()
        loop.act()
        seconds = time.perf_counter() - began
        rows = {name: tensor.numpy() for name, tensor in vars(loop.rollout).items()}
        return Round(
            rows, loop.observation.numpy(), loop.done.numpy(), seconds, tuple(loop.returns)
        )


class Learner(Loop):
    """Learns from the rounds of any number of samplers as if one loop had sampled them all."""

    def __init__(self, settings: Settings, seed: int, threads: int) -> None:
        # Its own environment only provides the shapes.
        super().__init__(replace(settings, envs=1), seed, threads)

    def weights(self) -> dict[str, Array]:
        """The newest weights."""
        return {n: value.contiguous().numpy() for n, value in self.network.state_dict().items()}

    def take(self, rounds: Sequence[Round]) -> None:
        """Copy the rounds side by side into one rollout, from which ``learn`` then learns."""
        envs = sum(len(found.done) for found in rounds)
        if envs != self.settings.envs:
            self.settings = replace(self.settings, envs=envs)
            shape = tuple(self.observation.shape[1:])
            self.rollout = Rollout(self.settings, shape, self.rollout.observations.dtype)
        for name, tensor in vars(self.rollout).items():
            np.concatenate([found.rows[name] for found in rounds], 1, out=tensor.numpy())
        self.observation = _joined([found.observation for found in rounds])
        self.done = _joined([found.done for found in rounds])


def _joined(arrays: Sequence[Any]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(arrays))
