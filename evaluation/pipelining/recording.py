"""A recording of Pong for benchmarks that move frames: a random policy in 16 environments.

Without the extra ``atari`` a moving ball is drawn instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from artos.envs.make import make_vector
from artos.envs.stepper import Stepper
from artos.errors import Refused
from evaluation.pipelining.rounds import FRAME, Recording

ENVS, STEPS = 16, 1024
_GAME = "PongNoFrameskip-v4"
_EPISODE, _BALL = 700, 4

Array = np.ndarray[Any, Any]


def record(folder: Path, steps: int = STEPS) -> str:
    """Write a recording of ``steps`` steps; returns a text about its content."""
    try:
        frames, ages = of_pong(steps)
    except Refused:
        frames, ages = drawn(steps)
        made_of = "a drawn ball"
    else:
        made_of = "Pong, random policy"
    Recording.save(folder, frames, ages)
    return made_of


def of_pong(steps: int) -> tuple[Array, Array]:
    """Frames and ages, (steps, 16, ...).

    Raises:
        Refused: the game is not installed.
    """
    env = make_vector(_GAME, ENVS)
    try:
        stepper = Stepper(env, _GAME)
        random = np.random.default_rng(0)
        frames = np.empty((steps, ENVS, *FRAME), np.uint8)
        ages = np.empty((steps, ENVS), np.uint8)
        (name,) = (part.name for part in stepper.spec.parts)
        seen = stepper.reset(0)
        for step in range(steps):
            frames[step], ages[step] = seen[name][:, -1], stepper.ages
            seen = stepper.step(random.integers(0, 6, ENVS)).obs
        return frames, ages
    finally:
        env.close()


def drawn(steps: int) -> tuple[Array, Array]:
    """Frames and ages of a square that wanders over a plain field, (steps, 16, ...)."""
    frames = np.full((steps, ENVS, *FRAME), 87, np.uint8)
    at = np.arange(steps)
    for env in range(ENVS):
        for step, row, column in zip(at, (at * 2 + env) % 80, (at * 3 + 5 * env) % 80, strict=True):
            frames[step, env, row : row + _BALL, column : column + _BALL] = 236
    ages = np.minimum(at % _EPISODE, 255).astype(np.uint8)
    return frames, np.repeat(ages[:, None], ENVS, axis=1)
