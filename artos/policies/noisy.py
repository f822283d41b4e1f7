"""Layers whose weights are noisy: exploration that is learned (Fortunato et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class NoisyLinear(nn.Linear):
    """A linear layer whose weights and biases have learned deviations beside their means.

    Noise is factorised (Fortunato et al. 2018, eq. 10 and 11) and drawn once for each batch.
    Deviations start at ``deviation`` divided by the root of the number of inputs.
    """

    def __init__(self, inside: int, outside: int, deviation: float) -> None:
        super().__init__(inside, outside)  # the means
        start = deviation / math.sqrt(inside)
        self.weight_deviation = nn.Parameter(torch.full((outside, inside), start))
        self.bias_deviation = nn.Parameter(torch.full((outside,), start))

    def forward(self, x: Tensor, noisy: bool = False) -> Tensor:
        """(B, inside) to (B, outside), by the means alone unless ``noisy``."""
        out: Tensor = super().forward(x)
        if not noisy:
            return out
        before, after = _noise(x[:1]), _noise(out[:1])
        # The noise of a weight is the product of both, so it need not be written down.
        return out + after * functional.linear(
            before * x, self.weight_deviation, self.bias_deviation
        )


def _noise(like: Tensor) -> Tensor:
    drawn = torch.randn_like(like)
    return drawn.sign() * drawn.abs().sqrt()


class NoisyMlp(nn.Module):
    """Noisy layers of these widths with ReLU between them."""

    def __init__(self, width: int, hidden: Sequence[int], out: int, deviation: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for side in (*hidden, out):
            self.layers.append(NoisyLinear(width, side, deviation))
            width = side

    def forward(self, x: Tensor, noisy: bool = False) -> Tensor:
        """(B, width) to (B, out)."""
        *inner, last = self.layers
        for layer in inner:
            x = functional.relu(layer(x, noisy))
        with torch.autocast(x.device.type, enabled=False):  # values are not rounded
            found: Tensor = last(x.float(), noisy)
        return found
