"""From observations to features: flat parts to one vector, images through a CNN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from artos.envs.spec import Part

_SMALLEST_IMAGE = 36
_CNN_WIDTH = 512


def is_image(part: Part) -> bool:
    """Whether a part is a picture for the Nature CNN: uint8, three axes, sides of 36 or more."""
    shape = part.value_shape
    if part.dtype != "uint8" or len(shape) != 3:
        return False
    height, width = shape[:2] if _channels_last(shape) else shape[1:]
    return min(height, width) >= _SMALLEST_IMAGE


def _channels_last(shape: tuple[int, ...]) -> bool:
    return shape[-1] in (1, 3, 4) and shape[0] not in (1, 3, 4)


def flat_width(part: Part) -> int:
    """Features a part gives when flattened: its elements, or one-hot its categories."""
    return sum(part.sizes) if part.sizes else math.prod(part.value_shape)


def flatten(part: Part, value: Tensor) -> Tensor:
    """(B, …) of any dtype to float32 (B, flat_width): bytes scaled to 0 … 1, categories one-hot."""
    if part.sizes:
        columns = value.long().reshape(len(value), -1).unbind(1)
        hot = [functional.one_hot(c, n) for c, n in zip(columns, part.sizes, strict=True)]
        return torch.cat(hot, 1).float()
    flat = value.reshape(len(value), -1).float()
    return flat / 255 if part.dtype == "uint8" else flat


def flatten_all(parts: Sequence[Part], obs: dict[str, Tensor]) -> Tensor:
    """All flat parts side by side, (B, sum of widths)."""
    pieces = [flatten(part, obs[part.name]) for part in parts]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)


def orthogonal(weight: Tensor, gain: float) -> Tensor:
    """Orthogonal initialisation of a weight stored as (in, out)."""
    return nn.init.orthogonal_(weight.t(), gain).t()


class TwinMlp(nn.Module):
    """Two MLPs of the same shape side by side (policy and value), tanh, as stacked products.

    One batched product per layer instead of two: measured 12 to 22 % less per PPO update.
    ``(B, width) → ((B, h), (B, h))``.
    """

    def __init__(self, width: int, hidden: Sequence[int]) -> None:
        super().__init__()
        sides = [width, *hidden]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inside, outside in pairwise(sides):
            pair = [orthogonal(torch.empty(inside, outside), math.sqrt(2)) for _ in range(2)]
            self.weights.append(nn.Parameter(torch.stack(pair)))
            self.biases.append(nn.Parameter(torch.zeros(2, 1, outside)))
        self.width = sides[-1]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features of the policy and of the value."""
        both = x.expand(2, -1, -1)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            both = torch.tanh(torch.baddbmm(bias, both, weight))
        return both[0], both[1]


class NatureCnn(nn.Module):
    """The convolutions of Mnih et al. 2015: 32×8/4, 64×4/2, 64×3/1, then 512; uint8 in, ReLU.

    ``(B, C, H, W)`` or ``(B, H, W, C)`` uint8 → ``(B, 512)``.
    """

    def __init__(self, part: Part) -> None:
        super().__init__()
        shape = part.value_shape
        self._last = _channels_last(shape)
        channels, *sides = (shape[2], *shape[:2]) if self._last else shape
        height, width = (((((n - 8) // 4 + 1) - 4) // 2 + 1) - 3 + 1 for n in sides)
        self.width = _CNN_WIDTH
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * height * width, _CNN_WIDTH), nn.ReLU(),
        )  # fmt: skip
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, image: Tensor) -> Tensor:
        """Features of the picture."""
        if self._last:
            image = image.permute(0, 3, 1, 2)
        features: Any = self.layers(image.float() / 255)
        return features  # type: ignore[no-any-return]
