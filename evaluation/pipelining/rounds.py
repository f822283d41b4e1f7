"""The rounds that all contestants move: sampled from Pong, with one environment per actor.

A recording is made once (``evaluation.pipelining.recording``) and holds single frames. Rounds are
cut from it here, with frames stacked, so that all contestants move the same arrays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Round = dict[str, Array]
"""One actor's T steps by data key: observations (T, 4, 84, 84), the other keys (T,)."""

FRAME, STACK = (84, 84), 4
OBSERVATIONS = "observations"
OBSERVATION_BYTES = STACK * FRAME[0] * FRAME[1]
SMALL = {
    "actions": "int64",
    "rewards": "float32",
    "terminations": "bool",
    "truncations": "bool",
    "ages": "uint8",
    "log_probs": "float32",
    "values": "float32",
    "bootstraps": "float32",
}
"""The data keys except the observations, and their types."""
SMALL_BYTES = sum(np.dtype(kind).itemsize for kind in SMALL.values())


class Recording:
    """Frames (steps, environments, 84, 84) and ages (steps, environments), both uint8."""

    def __init__(self, folder: Path) -> None:
        self._frames = np.load(folder / "frames.npy", mmap_mode="r")
        self._ages = np.load(folder / "ages.npy")

    @staticmethod
    def save(folder: Path, frames: Array, ages: Array) -> None:
        """Write a recording, making its folder."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "frames.npy", frames)
        np.save(folder / "ages.npy", ages)

    def window(self, actor: int, steps: int) -> tuple[Array, Array]:
        """The frames (steps, 84, 84) and ages (steps,) of an actor.

        Actors have different windows while the recording is long enough. The first row begins an
        episode, as there are no frames before it.
        """
        length, envs = self._ages.shape
        start = actor // envs * steps % (length - steps + 1)
        rows = slice(start, start + steps)
        ages = np.minimum(self._ages[rows, actor % envs], np.arange(steps).clip(max=255))
        return np.array(self._frames[rows, actor % envs]), ages.astype(np.uint8)


def small_keys(actor: int, ages: Array) -> Round:
    """All keys except the observations: few rewards, random values, no episode ends."""
    random, steps = np.random.default_rng(actor), len(ages)
    found: Round = {name: np.zeros(steps, kind) for name, kind in SMALL.items()}
    found["actions"][:] = random.integers(0, 6, steps)
    found["rewards"][:] = random.choice([-1, 0, 1], steps, p=[0.02, 0.97, 0.01])
    for name in ("log_probs", "values"):
        found[name][:] = random.standard_normal(steps)
    found["ages"][:] = ages
    return found


def round_of(recording: Recording, actor: int, steps: int) -> Round:
    """An actor's round, with frames stacked."""
    frames, ages = recording.window(actor, steps)
    return {OBSERVATIONS: stacked(frames, ages)} | small_keys(actor, ages)


def stacked(frames: Array, ages: Array) -> Array:
    """The last four frames of each step, oldest first, (T, 4, 84, 84); zeros before an episode."""
    out = np.zeros((len(frames), STACK, *FRAME), np.uint8)
    for lag in range(STACK):
        there = np.flatnonzero(ages >= lag)
        out[there, STACK - 1 - lag] = frames[there - lag]
    return out


def packed(small: Round) -> Array:
    """The small keys of a round as one array of bytes."""
    return np.concatenate([small[name].view(np.uint8) for name in SMALL])


def unpacked(data: Array, steps: int) -> Round:
    """The small keys of ``packed``, as views."""
    found, at = {}, 0
    for name, kind in SMALL.items():
        stop = at + steps * np.dtype(kind).itemsize
        found[name] = data[at:stop].view(kind)
        at = stop
    return found
