"""A text task that needs no data and checks itself: write digits backwards, a token a step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

_DIGITS = 10
_ASK = _DIGITS + 1
Text = NDArray[np.int64]


class Reverse(gym.Env[Text, Any]):
    """Shows the text so far, (2 * digits + 1,) int64, and takes the next token.

    Token 0 ends a text and stands where nothing is written yet, 1 to 10 are the digits, and 11 ends
    the prompt. The only reward comes with the last token: 1 if all digits are right, else half of
    the share that is, or with ``partial=False`` nothing. So a mean return without partial credit is
    the exact match.

    Raises:
        ValueError: ``digits`` is below 1.
    """

    def __init__(self, digits: int = 6, partial: bool = True) -> None:
        if digits < 1:
            raise ValueError(f"digits must be at least 1, not {digits}")
        self.digits, self.partial = digits, partial
        self.observation_space = spaces.MultiDiscrete([_ASK + 1] * (2 * digits + 1))
        self.action_space = spaces.Discrete(_ASK + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Text, dict[str, Any]]:
        """Another prompt, which follows from the seed."""
        super().reset(seed=seed)
        digits = self.np_random.integers(1, _DIGITS + 1, self.digits)
        self._text = np.zeros(2 * self.digits + 1, np.int64)
        self._text[: self.digits + 1] = *digits, _ASK
        self._written = 0
        return self._text.copy(), {}

    def step(self, action: Any) -> tuple[Text, float, bool, bool, dict[str, Any]]:
        """Write a token."""
        self._text[self.digits + 1 + self._written] = action
        self._written += 1
        over = self._written == self.digits or int(action) == 0
        return self._text.copy(), self._paid() if over else 0.0, over, False, {}

    def _paid(self) -> float:
        asked, said = self._text[: self.digits][::-1], self._text[self.digits + 1 :]
        right = float((asked == said).mean())
        return 1.0 if right == 1 else 0.5 * right * self.partial
