"""ReLU networks, one or several of one shape in parallel, as one step of autograd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

Layers = Sequence[Tensor]
"""Weights (…, out, in) and biases (out,) or (…, 1, out), alternating."""


class ReluMlps(nn.Module):
    """``count`` networks with weights (count, out, in), so that all of them take one kernel."""

    def __init__(self, count: int, width: int, hidden: Sequence[int], out: int) -> None:
        super().__init__()
        layers = list(pairwise((width, *hidden, out)))
        self.weights = nn.ParameterList(_uniform(count, o, i, within=i) for i, o in layers)
        self.biases = nn.ParameterList(_uniform(count, 1, o, within=i) for i, o in layers)

    def forward(self, x: Tensor, more: Tensor | None = None) -> Tensor:
        """(B, width) to (count, B, out); the last columns may be given apart, as ``more``."""
        layers = [p for pair in zip(self.weights, self.biases, strict=True) for p in pair]
        return forward(layers, x, more)


class ReluMlp(nn.Sequential):
    """Linear layers of these widths with ReLU between them, initialised as torch does."""

    def __init__(self, width: int, hidden: Sequence[int], out: int) -> None:
        layers: list[nn.Module] = []
        for side in hidden:
            layers += [nn.Linear(width, side), nn.ReLU()]
            width = side
        super().__init__(*layers, nn.Linear(width, out))

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) to (B, out)."""
        modules = self._modules.values()  # parameters() takes as long as a small product
        return forward(
            [p for m in modules if m for p in m._parameters.values() if p is not None], x
        )


def _uniform(*shape: int, within: int) -> nn.Parameter:
    """As torch initialises a linear layer with that many inputs."""
    bound = 1 / math.sqrt(within)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def forward(layers: Layers, x: Tensor, more: Tensor | None = None) -> Tensor:
    """Outputs of the networks for (B, width), in float32.

    Under autocast all layers but the last are rounded as it says.
    """
    device = x.device.type
    rounded = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if rounded else torch.float32
    with torch.autocast(device, enabled=False) if rounded else nullcontext():
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return _Pass.apply(dtype, x, more, *layers)  # type: ignore[no-any-return,no-untyped-call]
        return _seen(dtype, layers, x, more)[1]


def _seen(
    dtype: torch.dtype, layers: Layers, x: Tensor, more: Tensor | None
) -> tuple[list[Tensor], Tensor]:
    """The input of each layer, and the output of the last one; weights are rounded to ``dtype``."""
    x = (x if more is None else torch.cat((x, more), 1)).to(dtype)
    seen = [x.expand(*layers[0].shape[:-2], -1, -1)]
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        seen.append(_affine(seen[-1], weight.to(dtype), bias.to(dtype)).relu_())
    return seen, _affine(seen[-1].float(), layers[-2], layers[-1])


def _affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if weight.dim() == 2:
        return torch.addmm(bias, x, weight.t())
    if weight.shape[1] < weight.shape[2] / 4:
        return _product(x, weight.mT) + bias
    return torch.baddbmm(bias, x, weight.mT)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``: libraries take up to five times as long unless the narrow side comes first."""
    return a @ b if b.shape[-1] >= a.shape[-2] else (b.mT @ a.mT).mT


class _Pass(torch.autograd.Function):
    """All layers as one step.

    One node costs less than nine, and only gradients that are needed are computed.
    """

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, x: Tensor, more: Tensor | None, *layers: Tensor
    ) -> Tensor:
        seen, out = _seen(dtype, layers, x, more)
        ctx.dtype, ctx.split = dtype, x.shape[1]
        ctx.save_for_backward(*seen, *layers[::2])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        depth = len(ctx.saved_tensors) // 2
        seen, weights = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        found: list[Tensor | None] = []
        for i in reversed(range(depth)):
            of = gradient.dtype  # float32 for the last layer
            needs_weight, needs_bias = ctx.needs_input_grad[3 + 2 * i : 5 + 2 * i]
            bias = gradient.sum(-2, keepdim=gradient.dim() == 3, dtype=torch.float32)
            found.append(bias if needs_bias else None)
            found.append(_product(gradient.mT, seen[i].to(of)).float() if needs_weight else None)
            if i:
                before = _product(gradient, weights[i].to(of)).to(ctx.dtype)
                gradient = torch.ops.aten.threshold_backward(before, seen[i], 0.0)
        split, (x, more) = ctx.split, ctx.needs_input_grad[1:3]
        first = weights[0].to(gradient.dtype)
        inputs = (
            _summed(_product(gradient, first[..., :split])) if x else None,
            _summed(_product(gradient, first[..., split:])) if more else None,
        )
        return None, *inputs, *reversed(found)


def _summed(gradient: Tensor) -> Tensor:
    """(count, B, in) or (B, in) to (B, in), float32."""
    return (gradient if gradient.dim() == 2 else gradient.sum(0)).float()
