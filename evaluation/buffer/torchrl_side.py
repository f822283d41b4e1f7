"""Replay buffers of TorchRL on a memory map in shared memory: rows written and sampled per second.

A row is an observation and the next observation, 56 KB, written 512 at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)

from evaluation.baselines.timing import answer, one_core, rate
from evaluation.buffer.workload import ALPHA, BATCH, BETA, observations, options

CHUNK = 512


def rows() -> Any:
    """A chunk of rows."""
    seen = torch.from_numpy(observations(CHUNK))
    scalars = torch.zeros(CHUNK, 1)
    return TensorDict(
        {
            "observation": seen,
            "action": scalars,
            "td_error": torch.rand(CHUNK),
            "next": TensorDict({"observation": seen, "reward": scalars}, [CHUNK]),
        },
        [CHUNK],
    )


def filled(buffer: Any, capacity: int) -> Callable[[], object]:
    """Fill the buffer; returns the call that writes one more chunk."""
    chunk = rows()
    for _ in range(capacity // CHUNK + 1):
        buffer.extend(chunk)
    return lambda: buffer.extend(chunk)


def prioritised(folder: Path, capacity: int, seconds: float) -> float:
    """Rows per second sampled by priority, with priorities updated after each batch."""
    buffer: Any = TensorDictPrioritizedReplayBuffer(
        alpha=ALPHA,
        beta=BETA,
        batch_size=BATCH,
        priority_key="td_error",
        storage=LazyMemmapStorage(capacity, scratch_dir=folder),
    )
    filled(buffer, capacity)

    def sample() -> None:
        batch = buffer.sample()
        batch["td_error"] = torch.rand(BATCH)
        buffer.update_tensordict_priority(batch)

    return rate(sample, BATCH, seconds)


def main() -> None:
    """Measure once."""
    chosen = options(__doc__)
    one_core()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="baseline-") as folder:
        buffer: Any = TensorDictReplayBuffer(
            storage=LazyMemmapStorage(chosen.capacity, scratch_dir=Path(folder, "uniform")),
            batch_size=BATCH,
        )
        write = filled(buffer, chosen.capacity)
        rates = {
            "write": rate(write, CHUNK, chosen.seconds),
            "uniform": rate(buffer.sample, BATCH, chosen.seconds),
        }
        del buffer, write
        rates["prioritised"] = prioritised(
            Path(folder, "prioritised"), chosen.capacity, chosen.seconds
        )
    answer(rates, ("torchrl", "tensordict", "torch"))


if __name__ == "__main__":
    main()
