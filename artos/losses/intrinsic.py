"""Advantages of a reward that learners give themselves, for what actors come to see."""

from __future__ import annotations

import numpy as np

from artos.losses.gae import advantages
from artos.losses.rounds import Floats


def intrinsic_advantages(
    novelty: Floats, values: Floats, gamma: float, lam: float
) -> tuple[Floats, Floats]:
    """Advantages and returns of rounds, both (A, T, E) float32, as are the arguments.

    The reward of a row is the ``novelty`` of the observation after it, that of the next row. What
    comes after the last row is not known yet, so its advantage is 0. Episodes do not end these
    returns, as what an agent has seen is not forgotten with one (Burda et al. 2018, §2.3).
    """
    rewards = np.concatenate((novelty[:, 1:], values[:, -1:]), 1)  # the last error is 0
    never = np.zeros(novelty.shape, np.bool_)
    return advantages(rewards, values, np.zeros_like(values), never, never, gamma, lam)
