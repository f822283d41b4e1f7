"""Blocks with known rows, and whether what a sampler drew is what was written there."""

from __future__ import annotations

import numpy as np
from buffer_helpers import KEYS, History, new_block

from artos.buffer.samplers.n_step import NStep
from artos.specs.keys import VERSION_KEY, DataKey

NAMES = tuple(key.name for key in KEYS)
CUT = NStep(n=1, gamma=0.9, terminated=("terminations", "truncations"), truncated=())
"""For blocks without final observations."""


def histories(path, actors, envs, capacity, rows, seed=0, chance=0.3, final_rows=False, **options):
    """With ``final_rows`` as next-step autoreset writes them, else as same-step autoreset does."""
    made = {}
    keys = (*KEYS, DataKey("valid", (), "bool")) if final_rows else KEYS
    for actor in range(actors):
        block = new_block(path, keys, capacity, actor=actor, envs=envs, **options)
        made[actor] = History(block, chance, seed)
        for version in range(rows):
            made[actor].write(1, version)
    return made


def blocks_of(made):
    return {actor: history.block for actor, history in made.items()}


def check(sample, made, padding="zero", next_names=()):
    for place, (actor, step, env) in enumerate(sample["index"].tolist()):
        history = made[actor]
        for name in (*NAMES, VERSION_KEY):
            np.testing.assert_array_equal(
                sample[name][place], history.value(name, step, env, padding), err_msg=name
            )
        assert not next_names or history.rows[step]["valid"][env]
        for name in next_names:
            want = history.value(name, step + 1, env, padding)
            np.testing.assert_array_equal(sample[f"next.{name}"][place], want, err_msg=name)
