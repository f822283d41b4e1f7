"""A text task of your own: the sum of two numbers, digit by digit."""

import gymnasium as gym
import numpy as np

PLUS, IS, END = 11, 12, 0  # digits are tokens 1 to 10: a 0 in a text means that nothing is there


class Sum(gym.Env):
    """Shows ``3+4=`` and is to be told ``7``, and then the end."""

    observation_space = gym.spaces.MultiDiscrete([13] * 7)
    action_space = gym.spaces.Discrete(13)

    def reset(self, *, seed=None, options=None):
        """Another question, which follows from the seed."""
        super().reset(seed=seed)
        first, second = self.np_random.integers(0, 10, 2)
        self.answer = [int(digit) + 1 for digit in str(first + second)]
        self.text, self.said = [first + 1, PLUS, second + 1, IS], []
        return self._shown(), {}

    def step(self, action):
        """Write a token; the end is paid, or the third token."""
        self.said.append(int(action))
        over = action == END or len(self.said) == 3
        right = sum(a == b for a, b in zip(self.said, [*self.answer, END], strict=False))
        exact = self.said == [*self.answer, END]
        return self._shown(), float(exact or right / 6) * over, over, False, {}

    def _shown(self):
        shown = np.zeros(7, np.int64)
        text = self.text + self.said
        shown[: len(text)] = text
        return shown
