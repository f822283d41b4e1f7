"""What odd environments are made of: spaces, habits, and what happens in them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

Array = np.ndarray[Any, Any]

LOW, HIGH = np.array([-0.8, 2.1, 0.3]), np.array([0.7, 5.3, 0.3])
OBSERVED: dict[str, gym.Space[Any]] = {
    "floats": spaces.Box(-9, 9, (3,), np.float32),
    "doubles": spaces.Box(-9, 9, (2, 3), np.float64),
    "halves": spaces.Box(-9, 9, (3,), np.float16),
    "long": spaces.Box(-9, 9, (3,), np.longdouble),
    "swapped": spaces.Dict({t: spaces.Box(-9, 9, (3,), np.dtype(t)) for t in (">f4", ">f8")}),
    "bytes": spaces.Box(3, 200, (2, 4), np.uint8),
    "few bytes": spaces.Box(0, 10, (3,), np.uint8),
    "ints": spaces.Box(-300, 300, (3,), np.int16),
    "number": spaces.Box(-9, 9, (), np.float32),
    "bools": spaces.Box(0, 1, (3,), np.bool_),
    "category": spaces.Discrete(9, start=-4),
    "categories": spaces.MultiDiscrete([5, 7], start=[2, -3]),
    "grid": spaces.MultiDiscrete([[5, 7, 2], [3, 3, 4]]),
    "bits": spaces.MultiBinary([2, 3]),
    "dict": spaces.Dict(
        {
            "a": spaces.Dict({"b": spaces.Box(-9, 9, (2,), np.float32), 7: spaces.Discrete(5)}),
            "c": spaces.Box(0, 255, (3,), np.uint8),
        }
    ),
    "tuple": spaces.Tuple((spaces.Box(-9, 9, (3,), np.float64), spaces.MultiBinary(3))),
    "frames": spaces.Box(0, 255, (2, 3), np.uint8),
}
ACTED: dict[str, gym.Space[Any]] = {
    "category": spaces.Discrete(5),
    "shifted": spaces.Discrete(4, start=-2),
    "categories": spaces.MultiDiscrete([3, 4]),
    "grid": spaces.MultiDiscrete([[3, 4], [2, 5]], start=[[1, 2], [0, -1]]),
    "small": spaces.MultiDiscrete([3, 4], dtype=np.int32),
    "bits": spaces.MultiBinary(3),
    "floats": spaces.Box(-1, 1, (2,), np.float32),
    "doubles": spaces.Box(LOW, HIGH, dtype=np.float64),
    "halves": spaces.Box(-0.1, 0.3, (2, 1), np.float16),
    "number": spaces.Box(-0.4, 2.4, (), np.float32),
    "swapped": spaces.Box(-0.4, 2.4, (2,), np.dtype(">f8")),
    "open": spaces.Box(np.array([-0.4, -np.inf]), np.array([np.inf, 0.3]), dtype=np.float64),
}
BOUNDED = ("floats", "doubles", "halves", "number", "swapped")
ARRAYS = (
    "fresh", "reused", "shared", "strided", "reversed", "fortran", "readonly", "swapped", "list",
    "wide", "tensor", "subclass",
)  # fmt: skip
NUMBERS = ("float", "float64", "float32", "int", "int64", "bool", "bool_", "zero-d", "one", "list",
           "tensor")  # fmt: skip
FLAGS = ("bool", "bool_", "int", "int64", "zero-d", "one", "tensor")
MODES = {mode.name: mode for mode in AutoresetMode}
MADE = ("single", *(f"{who} {mode}" for who in ("sync", "own") for mode in MODES))


@dataclass(frozen=True)
class Habits:
    """What an environment observes, takes and does with it.

    ``shown`` says as which arrays observations come, ``taken`` whether it leaves actions alone,
    keeps them and overwrites them later, or writes into them at once, ``paid`` and ``said`` as
    which numbers rewards and flags come, ``infos`` whether its info is always the same object,
    ``masks`` where it forbids actions, ``ends`` how episodes do, ``made`` as what it is made.
    """

    observed: str = "floats"
    acted: str = "category"
    shown: str = "fresh"
    taken: str = "leaves"
    paid: str = "float"
    said: str = "bool"
    infos: str = "fresh"
    masks: str = ""
    ends: str = "mixed"
    made: str = "single"


class World:
    """What happens, a pure function of seed, episode and actions; the last one counts twice."""

    def __init__(self, habits: Habits) -> None:
        self.habits, self.seed, self.episode = habits, 0, -1

    def begin(self, seed: int | None) -> None:
        """The next episode, or the first one with a seed."""
        if seed is not None:
            self.seed, self.episode = seed, -1
        self.episode, self.at, self.over = self.episode + 1, 0, False
        self._go(f"{self.seed} {self.episode}".encode())

    def act(self, action: bytes, before: bytes) -> None:
        """A step with this action, after the one ``before``."""
        assert not self.over, "stepped beyond its end"
        self.at += 1
        self._go(self._state + action + b"|" + before)
        self.over = self.at == 9 or bool(self._draw(9).random() < 0.2)

    def _go(self, state: bytes) -> None:
        self._state = hashlib.blake2b(state, digest_size=16).digest()

    def _draw(self, what: int) -> np.random.Generator:
        return np.random.default_rng([what, *self._state])

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the episode is over by itself, and whether it is cut short."""
        kind = self.habits.ends
        if kind == "mixed":
            kind = str(self._draw(8).choice(["terminates", "truncates", "both"]))
        return self.over and kind != "truncates", self.over and kind != "terminates"

    @property
    def reward(self) -> float:
        """Of the step that led here, in the numbers that it is paid in."""
        number = int(self._draw(7).integers(-64, 64))
        match self.habits.paid:
            case "bool" | "bool_":
                return float(number > 0)
            case "int" | "int64":
                return float(number)
            case "float64":
                return number / 10
        return number / 32

    def seen(self, space: gym.Space[Any], leaf: int = 0) -> Any:
        """An observation of native arrays."""
        if isinstance(space, spaces.Dict):
            parts = enumerate(space.spaces.items())
            return {name: self.seen(inner, 10 * leaf + i) for i, (name, inner) in parts}
        if isinstance(space, spaces.Tuple):
            return tuple(self.seen(x, 10 * leaf + i) for i, x in enumerate(space.spaces))
        rng, shape = self._draw(100 + leaf), space.shape
        match space:
            case spaces.Discrete():
                return np.int64(space.start + rng.integers(space.n))
            case spaces.MultiDiscrete():
                return space.start + rng.integers(0, space.nvec)
            case spaces.MultiBinary():
                return rng.integers(0, 2, shape).astype(np.int8)
            case spaces.Box() if space.dtype.kind in "fb":
                drawn = rng.uniform(-2, 2, shape) if space.dtype.kind == "f" else rng.random(shape)
                return np.asarray(drawn > 0.5 if space.dtype.kind == "b" else drawn, space.dtype)
            case spaces.Box():
                return rng.integers(space.low, space.high, endpoint=True).astype(space.dtype)
        raise AssertionError(space)

    def mask(self, sizes: tuple[int, ...]) -> Array:
        """What may be chosen, all sub-actions side by side; after some ends nothing."""
        if self.over and self._draw(6).random() < 0.5:
            return np.zeros(sum(sizes), np.int8)
        rows = [self._draw(50 + i).random(n) for i, n in enumerate(sizes)]
        return np.concatenate([(row < 0.4) | (row == row.min()) for row in rows]).astype(np.int8)
