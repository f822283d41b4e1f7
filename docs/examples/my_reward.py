"""A reward of one's own for rows that are there: ``artos rescore DATA my_reward.py:upright``."""

import numpy as np


def upright(rows: dict[str, np.ndarray]) -> np.ndarray:
    """The pole of CartPole is to stand, whatever the cart does: 1 if it does, less if it leans."""
    angle = rows["next.observations"][:, 2]
    return 1 - np.abs(angle) / 0.21
