"""Replay buffers of TorchRL: rows written and sampled per second, uniform and prioritised.

A row is an observation and the next observation, 56 KB, written 512 at a time. They are measured on
a memory map in shared memory and on tensors of the process; of each measure the better one counts.
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
    LazyTensorStorage,
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
            "next": TensorDict(
                {"observation": seen, "reward": scalars, "terminated": scalars.bool()}, [CHUNK]
            ),
        },
        [CHUNK],
    )


def filled(buffer: Any, capacity: int) -> Callable[[], object]:
    """Fill the buffer; returns the call that writes one more chunk."""
    chunk = rows()
    for _ in range(capacity // CHUNK + 1):
        buffer.extend(chunk)
    return lambda: buffer.extend(chunk)


def uniform(storage: Any, capacity: int, seconds: float) -> dict[str, float]:
    """Rows per second written, and sampled uniformly."""
    buffer: Any = TensorDictReplayBuffer(storage=storage, batch_size=BATCH)
    return {
        "write": rate(filled(buffer, capacity), CHUNK, seconds),
        "uniform": rate(buffer.sample, BATCH, seconds),
    }


def prioritised(storage: Any, capacity: int, seconds: float) -> dict[str, float]:
    """Rows per second sampled by priority, with priorities updated after each batch."""
    buffer: Any = TensorDictPrioritizedReplayBuffer(
        alpha=ALPHA, beta=BETA, batch_size=BATCH, priority_key="td_error", storage=storage
    )
    filled(buffer, capacity)

    def sample() -> None:
        batch = buffer.sample()
        batch["td_error"] = torch.rand(BATCH)
        buffer.update_tensordict_priority(batch)

    return {"prioritised": rate(sample, BATCH, seconds)}


def main() -> None:
    """Measure once."""
    chosen = options(__doc__)
    one_core()
    torch.set_num_threads(1)
    rates: dict[str, float] = {}
    for measure in (uniform, prioritised):
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="baseline-") as folder:
            for storage in (
                LazyMemmapStorage(chosen.capacity, scratch_dir=Path(folder, "rows")),
                LazyTensorStorage(chosen.capacity),
            ):
                for name, value in measure(storage, chosen.capacity, chosen.seconds).items():
                    rates[name] = max(value, rates.get(name, 0.0))
    answer(rates, ("torchrl", "tensordict", "torch"))


if __name__ == "__main__":
    main()
