"""CartPole, which takes its time while there is a file ``slow`` in the user's folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium as gym


class Slow(gym.Wrapper[Any, Any, Any, Any]):
    """Every step sleeps as long as the file is there."""

    def step(self, action: Any) -> Any:
        if Path("slow").exists():
            time.sleep(0.02)
        return super().step(action)


def pole() -> Slow:
    return Slow(gym.make("CartPole-v1"))
