"""Pong with Gymnasium's preprocessing: one emulator, which has no threads."""

from __future__ import annotations

from typing import Any

import ale_py  # noqa: F401  (registers the games)
import gymnasium as gym
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation


def make() -> gym.Env[Any, Any]:
    """The game as the vector environment has it: 84 x 84 pixels in grey, four frames."""
    single = AtariPreprocessing(gym.make("ALE/Pong-v5", frameskip=1))
    return FrameStackObservation(single, 4)
