"""The time of an update of SAC by our learner, drawing included, in this process alone.

``python -m evaluation.replay.update_side --threads 2 --bfloat16`` answers with ``update_ms``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import torch

from artos import SAC
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.drawn_batch import drawn
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.uniform import UniformSampler
from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.learners.context import LearnerContext
from artos.policies.squashed import SquashedGaussian
from artos.protocol.invocations import Invoke
from artos.specs.keys import AGES_KEY, VALID_KEY, DataKey
from artos.specs.members import LEARNER
from artos.system import heap
from evaluation.baselines.timing import answer, on_cpus
from evaluation.replay.update import ACTIONS, BATCH, HIDDEN, OBSERVATIONS, ROWS, timed

_KEYS = (
    DataKey("observations", (OBSERVATIONS,)), DataKey("actions", (ACTIONS,)), DataKey("rewards"),
    DataKey("terminations", (), "bool"), DataKey("truncations", (), "bool"),
    DataKey(AGES_KEY, (), "uint8"), DataKey(VALID_KEY, (), "bool"),
)  # fmt: skip
_SPEC = EnvSpec(
    "random",
    (Part("observations", (OBSERVATIONS,), "float32"),),
    ActionSpec("box", (ACTIONS,), (), (-1.0,) * ACTIONS, (1.0,) * ACTIONS),
)


def filled(path: Path) -> ActorBlock:
    """A block that is full of random transitions of one endless episode."""
    block = ActorBlock.create(path, BlockSpec(0, _KEYS, ROWS, 1, on_full="overwrite"))
    rng = np.random.default_rng(0)
    block.allocate(ROWS)
    for name in ("observations", "rewards"):
        block.arrays[name][:] = rng.standard_normal(block.arrays[name].shape)
    block.arrays["actions"][:] = rng.uniform(-1, 1, block.arrays["actions"].shape)
    for name in ("terminations", "truncations", AGES_KEY, VALID_KEY):
        block.arrays[name].fill({AGES_KEY: 255, VALID_KEY: 1}.get(name, 0))
    block.commit(ROWS)
    return block


def learner(bfloat16: bool) -> SAC:
    """SAC, as a learner process sets it up."""
    found = SAC(hidden=HIDDEN, bfloat16=bfloat16)
    plan: Any = SimpleNamespace(
        data_keys=[_KEYS[0]], env_spec=msgspec.to_builtins(_SPEC), learner=LEARNER
    )
    found.setup(LearnerContext(plan, SquashedGaussian(_SPEC, HIDDEN), 1))
    return found


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--bfloat16", action="store_true")
    options = parser.parse_args()
    on_cpus(options.threads)
    heap.begin()  # as a learner's process does
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    ours, call = learner(options.bfloat16), Invoke(1, "learner.update", "update")
    with TemporaryDirectory(dir="/dev/shm") as folder:
        sampler = UniformSampler(
            {0: filled(Path(folder) / "block")}, ["observations", "actions"], BATCH, seed=0,
            next_keys=["observations"], n_step=NStep(n=1, gamma=0.99),
        )  # fmt: skip

        def updates(count: int) -> None:
            for _ in range(count):
                ours.update(drawn(sampler, 0, 0.0), call)

        answer({"update_ms": timed(updates, options.updates)}, ("torch", "numpy"))


if __name__ == "__main__":
    main()
