"""The plan of PPO on Pong for measurements without the game: data keys and triggers.

Rows of a recording are in place from the start, as if actors had just sampled them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.model_block import ObjectSpec
from artos.envs.spec import ActionSpec, EnvSpec, Part
from artos.policies.acting import Declared
from artos.policies.build import Policy, build_policy
from artos.runs.plan import Plan
from artos.specs.keys import MODEL_PARAM, ArraySpec, DataKey
from artos.specs.reference import Reference
from evaluation.pipelining.rounds import FRAME, OBSERVATIONS, STACK, Recording, small_keys, stacked
from triggers.algorithms.pipelines import Pipeline, learner_rows
from triggers.primitives import ObjectKeyTrigger
from triggers.table import Table
from triggers.wiring import completed

SPEC = EnvSpec(
    "rounds", (Part(OBSERVATIONS, FRAME, "uint8", STACK),), ActionSpec("discrete", (), (6,))
)
"""The environment spec of Pong, as the network needs it."""
PARAMS = 1_687_719
"""Parameters of the Nature network for Pong."""
_MOMENTS = ("learner.exp_avg", "learner.exp_avg_sq")


def network(seed: int = 0) -> Any:
    """The Nature network, for Pong."""
    return build_policy(Policy(), SPEC, seed)


def weights(readers: int) -> ObjectSpec:
    """The weights with Adam's moments, as a run of PPO publishes them."""
    arrays = [ArraySpec(name, (PARAMS,)) for name in ("params", *_MOMENTS)]
    return ObjectSpec.sized(MODEL_PARAM, arrays, readers)


def keys(*, once: bool) -> tuple[DataKey, ...]:
    """The data keys of a row, with every frame stored once or with whole stacks."""
    found = (*SPEC.data_keys(), *Declared().outputs, *Declared().bootstraps)
    whole = DataKey(OBSERVATIONS, (STACK, *FRAME), "uint8")
    return found if once else (whole, *found[1:])


def plan(
    actors: int,
    steps: int,
    model: ObjectSpec,
    pipeline: Pipeline = "none",
    *,
    once: bool = True,
    more: Sequence[DataKey] = (),
) -> tuple[Plan, Table]:
    """A workload of ``actors`` actors with one environment each; ``more`` are further keys."""
    data = (*keys(once=once), *more)
    names = tuple(key.name for key in data)
    table: Table = {
        **learner_rows(pipeline, names, steps, max(1, actors // 4)),
        "actors.sample": ObjectKeyTrigger(MODEL_PARAM),
    }
    draft = Plan(
        reference=Reference(""), name="rounds", env="", seed=0, actors=actors, envs=1, steps=steps,
        capacity=0, on_full="wait", total_steps=10**12, data_keys=data, objects=(model,),
        layout=(), triggers={target: trigger.encode() for target, trigger in table.items()},
        methods={"actors": ("sample",), "learner": ("update",)},
        non_publishing=("preprocess", "first_pass", "accumulate"),
        env_spec=msgspec.to_builtins(SPEC),
    )  # fmt: skip
    return completed(draft, table)


def fill(block: ActorBlock, recording: Recording, steps: int) -> None:
    """Fill the actor's block with its round of ``steps`` steps, repeated until it is full."""
    frames, ages = recording.window(block.spec.actor, steps)
    whole = block.key(OBSERVATIONS).stack == 1
    rows = {OBSERVATIONS: stacked(frames, ages) if whole else frames}
    rows |= small_keys(block.spec.actor, ages)
    for name, values in rows.items():
        array = block.arrays[name]
        places = np.arange(block.spec.capacity) % steps
        array[:, 0] = values[places]
    for name in block.arrays.keys() - rows.keys():
        block.arrays[name].fill(0)
