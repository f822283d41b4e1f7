"""CartPole that soon takes its time, until a test has seen what it waits for."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
from counting import BRISK, SLOW


class Paced(gym.Wrapper[Any, Any, Any, Any]):
    """After ``BRISK`` steps each takes 20 ms, as long as the cluster's file ``slow`` is there."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps > BRISK and SLOW.exists():
            time.sleep(0.02)
        return super().step(action)


def pole() -> Paced:
    return Paced(gym.make("CartPole-v1"))
