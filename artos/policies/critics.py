"""Critics of state and action: several networks of one shape, computed together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.encoders import Encoder
from artos.policies.relu_mlp import ReluMlps


class Critics(nn.Module):
    """Q-values of ``count`` networks (Fujimoto et al. 2018: two, against overestimation).

    Pictures are encoded once for all of them. Continuous actions are an input, (B, size) in
    -1 ... 1; discrete ones have an output each. With ``out`` above 1 a continuous action has that
    many, e.g. the logits of a distribution of returns.
    """

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        count: int = 2,
        out: int = 1,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(spec, normalize=normalize)
        self.continuous = spec.actions.kind == "box"
        size = math.prod(spec.actions.shape) if self.continuous else 0
        out = out if self.continuous else spec.actions.sizes[0]
        self.single = self.continuous and out == 1
        self.layers = ReluMlps(count, self.encoder.width + size, hidden, out)

    def forward(self, obs: dict[str, Tensor], actions: Tensor | None = None) -> Tensor:
        """(count, B) values of continuous actions, (count, B, choices or out) of others."""
        found: Tensor = self.layers(self.encoder(obs), actions)
        return found.squeeze(-1) if self.single else found
