"""Replay buffers of Tianshou: rows written and sampled per second, uniform and prioritised.

A row is an observation and the next observation, 56 KB, written one by one as its API requires.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer

from evaluation.baselines.timing import answer, one_core, rate
from evaluation.buffer.workload import ALPHA, BATCH, BETA, observations, options


def filled(buffer: Any, capacity: int) -> Callable[[], None]:
    """Fill the buffer; returns the call that adds one more row."""
    first, second = observations(2)
    row = Batch(
        obs=first, act=0, rew=0.0, terminated=False, truncated=False, obs_next=second, info={}
    )

    def write() -> None:
        buffer.add(row)

    for _ in range(capacity):
        write()
    return write


def sampling(buffer: Any, random: np.random.Generator | None) -> Callable[[], object]:
    """The call that samples a batch as tensors and, given a generator, updates its priorities."""

    def sample() -> object:
        batch, rows = buffer.sample(BATCH)
        if random is not None:
            buffer.update_weight(rows, random.random(BATCH))
        drawn = batch.obs, batch.obs_next, batch.act, batch.rew, batch.terminated
        return [torch.from_numpy(rows) for rows in drawn]

    return sample


def main() -> None:
    """Measure once."""
    chosen = options(__doc__)
    one_core()
    torch.set_num_threads(1)
    uniform: Any = ReplayBuffer(chosen.capacity)
    write = filled(uniform, chosen.capacity)
    rates = {
        "write": rate(write, 1, chosen.seconds),
        "uniform": rate(sampling(uniform, None), BATCH, chosen.seconds),
    }
    del uniform, write
    prioritised: Any = PrioritizedReplayBuffer(chosen.capacity, alpha=ALPHA, beta=BETA)
    filled(prioritised, chosen.capacity)
    sample = sampling(prioritised, np.random.default_rng(0))
    rates["prioritised"] = rate(sample, BATCH, chosen.seconds)
    answer(rates, ("tianshou", "torch", "numpy"))


if __name__ == "__main__":
    main()
