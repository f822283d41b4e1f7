"""A text task of your own: put three digits into order."""

import gymnasium as gym
import numpy as np

ORDER = 11  # ends the prompt; digits are tokens 1 to 10, as a 0 means that nothing is written


class Sort(gym.Env):
    """Shows ``7 3 5 ORDER`` and is to be told ``3 5 7``."""

    observation_space = gym.spaces.MultiDiscrete([12] * 7)
    action_space = gym.spaces.Discrete(12)

    def reset(self, *, seed=None, options=None):
        """Another question, which follows from the seed."""
        super().reset(seed=seed)
        self.asked, self.said = self.np_random.integers(1, 11, 3).tolist(), []
        return self._shown(), {}

    def step(self, action):
        """Write a token; the third one is paid, or a 0, which ends the text."""
        self.said.append(int(action))
        over = action == 0 or len(self.said) == 3
        right = sum(a == b for a, b in zip(self.said, sorted(self.asked), strict=False))
        paid = 1.0 if right == 3 else right / 6
        return self._shown(), paid if over else 0.0, over, False, {}

    def _shown(self):
        shown = np.zeros(7, np.int64)
        text = [*self.asked, ORDER, *self.said]
        shown[: len(text)] = text
        return shown
