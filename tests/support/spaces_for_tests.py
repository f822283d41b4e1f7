"""Environment descriptions of every kind, without environments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from artos.envs.spec import ActionSpec, EnvSpec, Part

DISCRETE = ActionSpec("discrete", (), (4,))
MULTI = ActionSpec("multidiscrete", (2, 2), (2, 3, 5, 2))
BOX = ActionSpec("box", (2, 1), (), (-1.0, None), (1.0, None), dtype="float32")
ACTIONS = [DISCRETE, MULTI, BOX]

VECTOR = Part("observations", (5,), "float32")
MIXED = (
    Part("observations.image", (40, 44, 3), "uint8", low=0, high=255),
    Part("observations.ram", (6,), "uint8", low=0, high=255),
    Part("observations.room", (), "int64", sizes=(7,)),
    Part("observations.doors", (2,), "int64", sizes=(3, 4)),
    Part("observations.grid", (2, 3), "float32"),
)
FLAT = MIXED[1:]
STACKED = Part("observations", (84, 84), "uint8", 4, low=0, high=255)


def spec_with(actions: ActionSpec, *parts: Part) -> EnvSpec:
    return EnvSpec("test", parts, actions, len(parts) > 1)


def random_obs(spec: EnvSpec, batch: int, seed: int) -> dict[str, NDArray[np.generic]]:
    rng = np.random.default_rng(seed)
    return {p.name: _random(p, batch, rng) for p in spec.parts}


def _random(part: Part, batch: int, rng: np.random.Generator) -> NDArray[np.generic]:
    shape = (batch, *part.value_shape)
    if part.sizes:
        sizes = np.array(part.sizes).reshape(part.shape)
        return rng.integers(0, sizes, shape)
    if part.dtype == "uint8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.normal(size=shape).astype(part.dtype)
