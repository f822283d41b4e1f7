"""A user's environment that waits: a run of it cannot end before a test has done its part."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv

GATE = 320
"""Steps of an environment from one gate to the next."""
_PATIENCE = 500.0


def opened(folder: Path, *numbers: int) -> None:
    """Open these gates, of which the first one is number 1."""
    for number in numbers:
        (folder / f"gate-{number}").touch()


class Gated(CartPoleEnv):
    """After every ``GATE`` steps it waits until there is a file of that gate where it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def step(self, action: Any) -> Any:
        number, over = divmod(self.taken, GATE)
        end = time.monotonic() + _PATIENCE
        while number and not over and not Path(f"gate-{number}").exists():
            assert time.monotonic() < end, f"nobody opened gate {number}"
            time.sleep(0.002)
        self.taken += 1
        return super().step(action)
