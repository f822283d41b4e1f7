"""ARTOS in the buffer benchmark, and the bare memory copies it is compared with, in one process.

``python -m evaluation.buffer.artos_side --seconds 1`` prints rates by measure. ARTOS and the copies
take turns within a measure, so that both use the same memory at the same time.

Measures (items per second): ``write`` (one step of 8 environments per commit) and ``write.rollout``
(128 steps per commit) against ``memcpy``, the same rows assigned to a cyclic array of the same size
in the same filesystem; ``gather``, a full batch of 16 actors × 512 rows, against ``gather.memcpy``;
``uniform`` and ``prioritised``, batches of 256 of observation, next observation, action, reward and
end as tensors, against ``uniform.numpy`` (as many ``np.take``); ``.once`` stores every frame once.
Our arrays and those of the copies are reused by the next batch.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.samplers.batch import Batch, BatchStore
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import ShmFolder
from artos.protocol.invocations import Claim
from artos.specs.keys import DataKey
from evaluation.baselines.timing import answer, one_core, rate
from evaluation.buffer.workload import ALPHA, BATCH, BETA, OBSERVATION_BYTES, SHAPE, options

ENVS, ROLLOUT = 8, 128
ACTORS, STEPS = 16, 512
TURNS = 8
KEY = "observations"
STACKS, FRAMES = DataKey(KEY, SHAPE, "uint8"), DataKey(KEY, SHAPE[1:], "uint8", stack=SHAPE[0])
AGES = DataKey("ages", (), "uint8")
BESIDE = (DataKey("actions", (), "int64"), DataKey("rewards"), DataKey("terminations", (), "bool"))
"""What else belongs to a transition."""
DRAWN = [KEY, *(key.name for key in BESIDE)]

Call = Callable[[], object]
Measured = dict[str, float]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder in shared memory, removed at the end."""
    folder = ShmFolder.create("bench")
    try:
        yield folder.path
    finally:
        folder.remove()


def by_turns(calls: Mapping[str, tuple[Call, int]], seconds: float) -> Measured:
    """The median rate of each ``(call, items)``; the calls take turns, ``TURNS`` times."""
    turns: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, (call, items) in calls.items():
            turns[name].append(rate(call, items, seconds / TURNS))
    return {name: statistics.median(rates) for name, rates in turns.items()}


# -- writing -----------------------------------------------------------------------------------


def writing(folder: Path, capacity: int, seconds: float) -> Measured:
    """Rows per second written by an actor of 8 environments, and copied without any buffer."""
    steps = max(2 * ROLLOUT, capacity // ENVS)
    keys = (STACKS, DataKey("rewards"))
    spec = BlockSpec(0, keys, steps, ENVS, on_full="overwrite")
    block = ActorBlock.create(folder / "written", spec)
    plain = Segment.create(folder / "plain", steps * ENVS * OBSERVATION_BYTES)
    array = np.ndarray((steps, ENVS, *SHAPE), np.uint8, plain.memory)
    array.fill(1)
    rows = np.random.default_rng(0).integers(0, 255, (ENVS, *SHAPE), dtype=np.uint8)
    return by_turns(
        {
            "write": (writer(block, rows, 1), ENVS),
            "write.rollout": (writer(block, rows, ROLLOUT), ENVS * ROLLOUT),
            "memcpy": (copier(array, rows), ENVS * ROLLOUT),
        },
        seconds,
    )


def writer(block: ActorBlock, rows: NDArray[Any], length: int) -> Call:
    """A call that allocates ``length`` steps, writes each in place, and commits them at once."""
    array, capacity = block.arrays[KEY], block.spec.capacity

    def write() -> None:
        start = block.allocate(length)
        for step in range(start, start + length):
            array[step % capacity] = rows
        block.commit(start + length)

    return write


def copier(array: NDArray[Any], rows: NDArray[Any]) -> Call:
    """A call that makes the same assignments without counters."""
    place = 0

    def copy() -> None:
        nonlocal place
        for _ in range(ROLLOUT):
            array[place] = rows
            place = (place + 1) % len(array)

    return copy


# -- gathering a full batch --------------------------------------------------------------------


def gathering(folder: Path, steps: int, seconds: float) -> Measured:
    """Rows per second of a full batch copied into one array, and the same bytes in plain copies."""
    spec = BlockSpec(0, (STACKS,), steps, 1, (Consumer("learner", (KEY,)),))
    blocks = {actor: _full(folder / f"actor{actor}", spec, actor) for actor in range(ACTORS)}
    claims = [Claim(actor, 0, steps) for actor in blocks]
    store = BatchStore()
    sources = [block.arrays[KEY] for block in blocks.values()]
    target = np.empty((ACTORS, *sources[0].shape), np.uint8)

    def plain() -> None:
        for rows, source in zip(target, sources, strict=True):
            np.copyto(rows, source)

    rows = ACTORS * steps
    return by_turns(
        {
            "gather": (lambda: Batch(blocks, claims, store).gather(KEY), rows),
            "gather.memcpy": (plain, rows),
        },
        seconds,
    )


def _full(path: Path, spec: BlockSpec, actor: int = 0) -> ActorBlock:
    block = ActorBlock.create(path, spec)
    block.allocate(spec.capacity)
    random = np.random.default_rng(actor)
    for step in range(spec.capacity):
        values = random.integers(0, 255, block.arrays[KEY].shape[1:], dtype=np.uint8)
        block.arrays[KEY][step] = values
    for name in block.arrays.keys() - {KEY}:
        block.arrays[name].fill(0)
    if AGES.name in block.arrays:
        block.arrays[AGES.name].fill(255)
    block.commit(spec.capacity)
    return block


# -- sampling ----------------------------------------------------------------------------------


def sampling(folder: Path, capacity: int, seconds: float) -> Measured:
    """Transitions per second in batches of 256, with stacks stored whole and frames stored once."""
    steps = capacity // ENVS
    stacks, frames = (STACKS, *BESIDE), (FRAMES, AGES, *BESIDE)
    whole = _full(folder / "whole", BlockSpec(0, stacks, steps, ENVS, on_full="overwrite"))
    once = _full(folder / "once", BlockSpec(0, frames, steps, ENVS, on_full="overwrite"))
    return by_turns(
        {
            "uniform": (uniform(whole), BATCH),
            "uniform.once": (uniform(once), BATCH),
            "uniform.numpy": (numpy_gather(whole), BATCH),
            "prioritised": (prioritised(whole), BATCH),
            "prioritised.once": (prioritised(once), BATCH),
        },
        seconds,
    )


def uniform(block: ActorBlock) -> Call:
    """A call that samples a uniform batch as tensors."""
    sampler = UniformSampler({0: block}, DRAWN, BATCH, next_keys=[KEY], seed=0)
    return lambda: tensors(sampler.sample())


def prioritised(block: ActorBlock) -> Call:
    """A call that samples a batch by priority as tensors, and updates its priorities."""
    random = np.random.default_rng(0)
    sampler = PrioritisedSampler(
        {0: block}, DRAWN, BATCH, next_keys=[KEY], seed=0, alpha=ALPHA, beta=BETA
    )

    def sample() -> None:
        batch = sampler.sample()
        tensors(batch)
        sampler.update(batch["index"], random.random(BATCH))

    return sample


def tensors(batch: Mapping[str, NDArray[Any]]) -> list[torch.Tensor]:
    """Observation and next observation, (256, 4, 84, 84) uint8 each, and what else was drawn."""
    return [torch.from_numpy(batch[name]) for name in (f"next.{KEY}", *DRAWN)]


def numpy_gather(block: ActorBlock) -> Call:
    """The bound: the same rows of the same memory by plain ``np.take`` into reused arrays."""
    flat = {name: block.arrays[name].reshape(-1, *block.arrays[name].shape[2:]) for name in DRAWN}
    kept = {name: np.empty((BATCH, *rows.shape[1:]), rows.dtype) for name, rows in flat.items()}
    after = np.empty_like(kept[KEY])
    random = np.random.default_rng(0)

    def gather() -> list[torch.Tensor]:
        picks = random.integers(0, len(flat[KEY]) - ENVS, BATCH)
        # "clip" lets take write directly into the target instead of through a buffer.
        for name, rows in flat.items():
            np.take(rows, picks, axis=0, out=kept[name], mode="clip")
        np.take(flat[KEY], picks + ENVS, axis=0, out=after, mode="clip")
        return [torch.from_numpy(rows) for rows in (after, *kept.values())]

    return gather


def main() -> None:
    """Measure once."""
    chosen: argparse.Namespace = options(__doc__)
    one_core()
    torch.set_num_threads(1)
    rates: Measured = {}
    for measure, size in (
        (writing, chosen.capacity),
        (gathering, min(STEPS, chosen.capacity)),
        (sampling, chosen.capacity),
    ):
        with shared_folder() as folder:
            rates |= measure(folder, size, chosen.seconds)
    answer(rates, ("torch", "numpy"))


if __name__ == "__main__":
    main()
