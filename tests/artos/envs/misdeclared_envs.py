"""Environments that return something else than they declare."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv


class Wrong(gym.Env[Any, Any]):
    """Shows ``seen``, pays ``reward``; ``step`` and ``reset`` return what else is said."""

    def __init__(self, space: gym.Space[Any], seen: Any, reward: Any = 1.0, **said: Any) -> None:
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.seen, self.reward, self.said = seen, reward, said

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.said.get("reset", (self.seen, {}))

    def step(self, action: Any) -> Any:
        after = self.said.get("after", self.seen)
        return self.said.get("step", (after, self.reward, False, False, self.said.get("info", {})))


class WrongVector(VectorEnv[Any, Any, Any]):
    """One environment whose ``step`` returns exactly what is said."""

    def __init__(self, step: Any, seen: Any = None) -> None:
        self.num_envs, self.metadata = 1, {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(-9, 9, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.seen = np.zeros((1, 2), np.float32) if seen is None else seen
        self._step = step

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.seen, {}

    def step(self, actions: Any) -> Any:
        return self._step


Named = namedtuple("Named", "obs reward terminated truncated info")
FOUR = spaces.Box(-9, 9, (4,), np.float32)
BYTES = spaces.Box(0, 255, (4,), np.uint8)
HALF = np.full(4, 0.5, np.float32)
OBS = np.zeros((1, 2), np.float32)
NOT, ENDED = np.zeros(1, bool), np.ones(1, bool)

REFUSED: dict[str, tuple[Any, str]] = {
    "scaled bytes": (
        lambda: Wrong(BYTES, HALF),
        r"observations: .* float32 \(4,\), its space says "
        r"uint8 \(4,\) \(0.5 among them\)",
    ),
    "wrapping bytes": (lambda: Wrong(BYTES, np.full(4, 300)), r"int64 \(4,\).*uint8.*300 among"),
    "rounded integers": (lambda: Wrong(spaces.Box(-9, 9, (4,), np.int64), HALF), "0.5 among"),
    "too few": (lambda: Wrong(FOUR, np.zeros(1, np.float32)), r"\(1,\), its space says .*\(4,\)"),
    "a number": (lambda: Wrong(FOUR, 0.0), r"float64 \(\), its space says float32 \(4,\)"),
    "nothing": (lambda: Wrong(FOUR, None), "returned a NoneType"),
    "words": (lambda: Wrong(FOUR, "left"), "returned a str"),
    "ragged lists": (lambda: Wrong(FOUR, [[1.0], [1.0, 2.0]]), "returned a list"),
    "a part is missing": (
        lambda: Wrong(spaces.Dict(a=FOUR, b=FOUR), {"a": HALF}),
        r"observations.b: .*only a",
    ),
    "a part is wrong": (lambda: Wrong(spaces.Dict(a=BYTES), {"a": HALF}), "observations.a: .*0.5"),
    "no dict": (lambda: Wrong(spaces.Dict(a=FOUR), HALF), "observations.a: .*a ndarray"),
    "a category too large": (lambda: Wrong(spaces.Discrete(4), 4), r"returned 4: .*Discrete\(4\)"),
    "a negative category": (lambda: Wrong(spaces.Discrete(4), -1), "returned -1"),
    "half a category": (lambda: Wrong(spaces.Discrete(4), 0.7), "0.7 among"),
    "below its start": (lambda: Wrong(spaces.Discrete(4, start=3), 2), "returned 2"),
    "one of many categories": (
        lambda: Wrong(spaces.MultiDiscrete([3, 3]), np.array([0, 3])),
        r"returned 3 at \[1\]",
    ),
    "two as a bit": (
        lambda: Wrong(spaces.MultiBinary(2), np.array([0, 2], np.int8)),
        r"2 at \[1\]",
    ),
    "too large for float32": (
        lambda: Wrong(spaces.Box(-np.inf, np.inf, (4,), np.float64), np.array([0, 1e39, 0, 0])),
        r"returned 1e\+39 at \[1\]",
    ),
    "not a number": (lambda: Wrong(FOUR, np.full(4, np.nan, np.float32)), "returned nan"),
    "another shape later": (lambda: Wrong(FOUR, HALF, after=np.zeros(5)), r"\(5,\)"),
    "several rewards": (
        lambda: Wrong(FOUR, HALF, np.ones(3)),
        "rewards: .*3 numbers.*LinearReward",
    ),
    "no reward": (lambda: Wrong(FOUR, HALF, None), "rewards: .*None"),
    "a reward of 1e39": (lambda: Wrong(FOUR, HALF, 1e39), r"rewards: .*1e\+39"),
    "old steps": (
        lambda: Wrong(FOUR, HALF, step=(HALF, 1.0, False, {})),
        r"step\(\) returned \(ndarray, float, bool, dict\); return .*shimmy",
    ),
    "an old reset": (
        lambda: Wrong(FOUR, HALF, reset=HALF),
        r"reset\(\) returned a ndarray; .*shimmy",
    ),
    "complex numbers": (lambda: Wrong(FOUR, np.zeros(4, complex)), r"complex128 \(4,\), its space"),
    "no flag": (
        lambda: Wrong(FOUR, HALF, step=(HALF, 1.0, None, False, {})),
        "terminations: .*None",
    ),
    "a word as flag": (
        lambda: Wrong(FOUR, HALF, step=(HALF, 1.0, False, "no", {})),
        "truncations: .*'no': return True or False",
    ),
    "no number as flag": (
        lambda: Wrong(FOUR, HALF, step=(HALF, 1.0, np.nan, False, {})),
        "terminations: .*nan",
    ),
    "several flags": (
        lambda: Wrong(FOUR, HALF, step=(HALF, 1.0, NOT, np.zeros(2, bool), {})),
        r"truncations: .*\[False, False\]",
    ),
    "scores as mask": (
        lambda: Wrong(FOUR, HALF, reset=(HALF, {"action_mask": np.array([-np.inf, 0])})),
        r"action_mask: environment 0 returned -inf at \[0\]: a mask has 1",
    ),
    "a word as mask": (
        lambda: Wrong(FOUR, HALF, reset=(HALF, {"action_mask": "01"})),
        "action_mask: .*a str",
    ),
    "another mask later": (
        lambda: Wrong(
            FOUR, HALF, reset=(HALF, {"action_mask": [1, 1]}), info={"action_mask": [1, 1, 1]}
        ),
        r"action_mask: .*int64 \(1, 3\)",
    ),
    "nothing to see": (lambda: Wrong(spaces.Dict(), {}), r"Dict\(\) shows nothing that can be"),
    "masks only later": (
        lambda: Wrong(FOUR, HALF, info={"action_mask": np.ones(2)}),
        "first reset",
    ),
    "no elements": (lambda: Wrong(spaces.Box(0, 1, (0,)), np.zeros(0)), "observations has no elem"),
    "a vector's observations": (
        lambda: WrongVector((OBS,) * 5, np.zeros((1, 3))),
        r"float64 \(1, 3\), its space says float32 \(1, 2\)",
    ),
    "a vector's rewards": (
        lambda: WrongVector((OBS, np.ones((1, 2)), NOT, NOT, {})),
        r"rewards: .*\(1, 2\): return one number for each of 1",
    ),
    "a vector's flags": (
        lambda: WrongVector((OBS, [1.0], np.array([np.nan]), NOT, {})),
        "terminations: environment 0 returned nan",
    ),
    "a vector's flags in words": (
        lambda: WrongVector((OBS, [1.0], NOT, np.array(["no"]), {})),
        "truncations: .*returned a ndarray",
    ),
    "a vector's end without final_obs": (
        lambda: WrongVector((OBS, [1.0], ENDED, NOT, {})),
        "without final_obs",
    ),
    "a vector's old steps": (lambda: WrongVector((OBS, [1.0], NOT, {})), r"step\(\) returned"),
}
ALLOWED: dict[str, tuple[Any, list[float]]] = {
    "doubles": (lambda: Wrong(FOUR, np.full(4, 0.5)), [0.5] * 4),
    "integers for floats": (lambda: Wrong(FOUR, np.arange(4)), [0, 1, 2, 3]),
    "whole floats for bytes": (lambda: Wrong(BYTES, np.array([0.0, 7, 255, 1])), [0, 7, 255, 1]),
    "a list": (lambda: Wrong(FOUR, [0.5] * 4), [0.5] * 4),
    "a tensor": (lambda: Wrong(FOUR, torch.full((4,), 0.5)), [0.5] * 4),
    "a number as reward array": (lambda: Wrong(FOUR, HALF, np.ones(1)), [0.5] * 4),
    "numbers as flags": (
        lambda: Wrong(FOUR, HALF, step=(HALF, 1.0, np.zeros((1, 1)), torch.zeros(1), {})),
        [0.5] * 4,
    ),
    "a named tuple": (
        lambda: Wrong(FOUR, HALF, step=Named(HALF, 1.0, False, False, {})),
        [0.5] * 4,
    ),
    "longer floats": (
        lambda: Wrong(spaces.Box(-9, 9, (4,), np.longdouble), np.full(4, 0.5, np.longdouble)),
        [0.5] * 4,
    ),
    "lives that are no number": (lambda: Wrong(FOUR, HALF, info={"lives": None}), [0.5] * 4),
    "a tensor as reward": (lambda: Wrong(FOUR, HALF, torch.ones(1, 1)), [0.5] * 4),
    "a category from 3": (lambda: Wrong(spaces.Discrete(4, start=3), np.int32(5)), [2]),
    "a tuple": (
        lambda: Wrong(spaces.Tuple((FOUR, spaces.Discrete(3))), (HALF, 2)),
        [0.5] * 4 + [2],
    ),
    "keys that are no strings": (lambda: Wrong(spaces.Dict({1: FOUR}), {1: HALF}), [0.5] * 4),
    "a vector's tensors": (
        lambda: WrongVector((torch.ones(1, 2), torch.ones(1), torch.zeros(1), [False], {})),
        [1, 1],
    ),
    "a vector's final_observation": (
        lambda: WrongVector((OBS, [1.0], ENDED, NOT, {"final_observation": OBS})),
        [0, 0],
    ),
}


def __getattr__(name: str) -> Any:
    """Factories by the names of the cases, with underscores."""
    for cases in (REFUSED, ALLOWED):
        for case in cases:
            if case.replace(" ", "_").replace("'", "") == name:
                return cases[case][0]
    raise AttributeError(name)
