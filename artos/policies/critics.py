"""Critics of state and action: several networks of one shape, computed together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.encoders import Encoder


class Critics(nn.Module):
    """Q-values of ``count`` networks (Fujimoto et al. 2018: two, against overestimation).

    Layers are (count, in, out), so all of them take one kernel; pictures are encoded once for all.
    Continuous actions are an input, (B, size) in -1 ... 1; discrete ones have an output each.
    """

    def __init__(
        self, spec: EnvSpec, hidden: Sequence[int] = (256, 256), *, count: int = 2
    ) -> None:
        super().__init__()
        self.encoder, self.continuous = Encoder(spec), spec.actions.kind == "box"
        size = math.prod(spec.actions.shape) if self.continuous else 0
        out = 1 if self.continuous else spec.actions.sizes[0]
        layers = list(pairwise((self.encoder.width + size, *hidden, out)))
        self.weights = nn.ParameterList(_uniform(count, i, o, within=i) for i, o in layers)
        self.biases = nn.ParameterList(_uniform(count, 1, o, within=i) for i, o in layers)

    def forward(self, obs: dict[str, Tensor], actions: Tensor | None = None) -> Tensor:
        """(count, B) values of continuous actions, (count, B, choices) of discrete ones."""
        x: Tensor = self.encoder(obs)
        x = x if actions is None else torch.cat((x, actions), 1)
        x = x.expand(len(self.weights[0]), -1, -1)
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = torch.relu(x) if i < last else x
        return x.squeeze(-1) if self.continuous else x


def _uniform(*shape: int, within: int) -> nn.Parameter:
    """As torch initialises a linear layer with that many inputs."""
    bound = 1 / math.sqrt(within)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
