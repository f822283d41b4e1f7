"""An environment that notes when its episodes ended, and their returns."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class Told(gym.Wrapper[Any, Any, Any, Any]):
    """Counts steps over all episodes."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.steps, self._sum = 0, 0.0
        self.at = list[float]()
        self.returns = list[float]()

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._sum = 0.0
        return super().reset(**given)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment does."""
        found = super().step(action)
        self.steps += 1
        self._sum += float(found[1])
        if found[2] or found[3]:
            self.at.append(float(self.steps))
            self.returns.append(self._sum)
        return found
