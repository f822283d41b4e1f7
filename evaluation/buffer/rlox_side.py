"""Replay buffers of rlox (Rust): rows written and sampled per second, uniform and prioritised.

They hold vectors of float32: a row is an observation and the next observation, 226 KB.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import rlox
import torch

from evaluation.baselines.timing import answer, one_core, rate
from evaluation.buffer.workload import ALPHA, BATCH, BETA, OBSERVATION_BYTES, observations, options

_DRAWN = ("obs", "next_obs", "actions", "rewards", "terminated")


def filled(buffer: Any, capacity: int) -> Callable[[], None]:
    """Fill the buffer; returns the call that adds one more row."""
    first, second = observations(2).reshape(2, -1).astype(np.float32)
    action = np.zeros(1, np.float32)

    def write() -> None:
        buffer.push(first, action, 0.0, terminated=False, truncated=False, next_obs=second)

    for _ in range(capacity):
        write()
    return write


def sampling(buffer: Any, random: np.random.Generator | None) -> Callable[[], object]:
    """The call that samples a batch as tensors and, given a generator, updates its priorities."""
    seeds = count()

    def sample() -> object:
        batch = buffer.sample(BATCH, next(seeds))
        if random is not None:
            buffer.update_priorities(batch["indices"], random.random(BATCH))
        return [torch.from_numpy(batch[name]) for name in _DRAWN]

    return sample


def main() -> None:
    """Measure once."""
    chosen = options(__doc__)
    one_core()
    torch.set_num_threads(1)
    uniform: Any = rlox.ReplayBuffer(chosen.capacity, OBSERVATION_BYTES, 1)
    write = filled(uniform, chosen.capacity)
    rates = {
        "write": rate(write, 1, chosen.seconds),
        "uniform": rate(sampling(uniform, None), BATCH, chosen.seconds),
    }
    del uniform, write
    prioritised = rlox.PrioritizedReplayBuffer(chosen.capacity, OBSERVATION_BYTES, 1, ALPHA, BETA)
    filled(prioritised, chosen.capacity)
    sample = sampling(prioritised, np.random.default_rng(0))
    rates["prioritised"] = rate(sample, BATCH, chosen.seconds)
    answer(rates, ("rlox", "torch", "numpy"))


if __name__ == "__main__":
    main()
