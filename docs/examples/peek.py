"""Reads the blocks of a live run: python peek.py /dev/shm/artos.RUN.*"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from artos import ActorBlock, Batch, Claim, NStep, UniformSampler
from artos.errors import NothingToSample, Overwritten

folder = Path(sys.argv[1])
blocks = {
    number: ActorBlock.attach(path) for number, path in enumerate(sorted(folder.glob("actor-*")))
}
ends = ("terminations", "truncations")
sampler = UniformSampler(
    blocks,
    ("observations", "rewards"),
    batch_size=256,
    next_keys=("observations",),
    n_step=NStep(n=1, gamma=0.99, terminated=ends, truncated=()),
    seed=1,
)


def mean_reward() -> float:
    """Over the last 16 rows of every actor."""
    stop = min(block.written for block in blocks.values())
    batch = Batch(blocks, [Claim(actor, stop - 16, stop) for actor in blocks])
    return float(batch.gather("rewards").mean())


def between_rounds(read: Callable[[], Any]) -> Any:
    """Try until the rows are not about to be overwritten: this run keeps one round only."""
    while True:
        try:
            return read()
        except (NothingToSample, Overwritten):
            time.sleep(0.001)


for name, array in between_rounds(sampler.sample).items():
    print(f"{name:18}{array.dtype!s:9}{array.shape}")
print("mean reward", between_rounds(mean_reward))
