"""Tables of dm-reverb with the server in the same process: rows written and sampled per second.

Reverb stores an observation once. A sampled row is a trajectory of two: the observation and the
next observation, 56 KB. Its server and its dataset have threads of their own and get all cores; the
dataset fetches ahead, so that some batches are drawn by priorities of before the last update.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import reverb
import tensorflow
import torch

from evaluation.baselines.timing import answer, rate
from evaluation.buffer.workload import ALPHA, BATCH, SHAPE, observations, options

CHUNK = 256
BESIDE = {"action": tensorflow.int64, "reward": tensorflow.float32, "terminated": tensorflow.bool}
"""What else belongs to a transition."""


def serve(sampler: Any, capacity: int) -> Any:
    """A server with one table."""
    table = reverb.Table(
        "rows",
        sampler=sampler,
        remover=reverb.selectors.Fifo(),
        max_size=capacity,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    return reverb.Server([table], port=None)


def filled(client: Any, capacity: int) -> Callable[[], None]:
    """Fill the table; returns the call that writes one more chunk."""
    seen = observations(CHUNK)
    beside = {name: dtype.as_numpy_dtype(0) for name, dtype in BESIDE.items()}

    def write() -> None:
        with client.trajectory_writer(num_keep_alive_refs=2) as writer:
            for number, observation in enumerate(seen):
                writer.append({"observation": observation, **beside})
                if number:
                    items = {name: column[-2:] for name, column in writer.history.items()}
                    writer.create_item("rows", 1.0, items)
            writer.flush()

    while client.server_info()["rows"].current_size < capacity:
        write()
    return write


def batches(address: str) -> Iterator[Any]:
    """An endless stream of batches from the table."""
    dataset = reverb.TrajectoryDataset(
        server_address=address,
        table="rows",
        max_in_flight_samples_per_worker=2 * BATCH,
        dtypes={"observation": tensorflow.uint8, **BESIDE},
        shapes={
            "observation": tensorflow.TensorShape([2, *SHAPE]),
            **dict.fromkeys(BESIDE, tensorflow.TensorShape([2])),
        },
    )
    stream: Iterator[Any] = dataset.batch(BATCH).prefetch(2).as_numpy_iterator()
    return stream


def tensors(batch: Any) -> list[torch.Tensor]:
    """All that was drawn."""
    return [torch.from_numpy(rows) for rows in batch.data.values()]


def uniform(capacity: int, seconds: float) -> dict[str, float]:
    """Rows per second written, and sampled uniformly."""
    server = serve(reverb.selectors.Uniform(), capacity)
    write = filled(reverb.Client(f"localhost:{server.port}"), capacity)
    written = rate(write, CHUNK - 1, seconds)
    stream = batches(f"localhost:{server.port}")
    sampled = rate(lambda: tensors(next(stream)), BATCH, seconds)
    server.stop()
    return {"write": written, "uniform": sampled}


def prioritised(capacity: int, seconds: float) -> float:
    """Rows per second sampled by priority, with priorities updated after each batch."""
    server = serve(reverb.selectors.Prioritized(ALPHA), capacity)
    client = reverb.Client(f"localhost:{server.port}")
    filled(client, capacity)
    stream, random = batches(f"localhost:{server.port}"), np.random.default_rng(0)

    def sample() -> None:
        batch = next(stream)
        tensors(batch)
        fresh = zip(batch.info.key.tolist(), random.random(BATCH).tolist(), strict=True)
        client.mutate_priorities("rows", dict(fresh))

    sampled = rate(sample, BATCH, seconds)
    server.stop()
    return sampled


def main() -> None:
    """Measure once."""
    chosen = options(__doc__)
    torch.set_num_threads(1)
    rates = uniform(chosen.capacity, chosen.seconds)
    rates["prioritised"] = prioritised(chosen.capacity, chosen.seconds)
    answer(rates, ("dm-reverb", "tensorflow", "numpy"))


if __name__ == "__main__":
    main()
