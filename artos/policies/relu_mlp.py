"""ReLU networks, one or several of one shape in parallel, as one step of autograd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from artos.policies.products import affine, layer, product, worth_a_call

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

    @property
    def layers(self) -> Layers:
        """Its weights and biases."""
        modules = self._modules.values()  # parameters() takes as long as a small product
        return [p for m in modules if m for p in m._parameters.values() if p is not None]

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) to (B, out)."""
        return forward(self.layers, x)


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
        return _together(
            [_Seen(dtype, each, x, more).out for each in _networks(dtype, layers, len(x))]
        )


def _networks(dtype: torch.dtype, layers: Layers, rows: int) -> list[Layers]:
    """What is computed at once: of large networks on a CPU one, as it stays in the cache then.

    Numbers of half the size stay there anyway.
    """
    together = dtype != torch.float32 or layers[0].dim() == 2 or torch.compiler.is_compiling()
    if together or not any(worth_a_call(rows, weight[0]) for weight in layers[::2]):
        return [layers]
    return [*zip(*layers, strict=True)]


def _together(parts: Sequence[Tensor]) -> Tensor:
    """One tensor for all networks, of those that were computed one after the other."""
    return parts[0] if len(parts) == 1 else torch.stack([*parts])


class _Seen:
    """What layers see: ``inputs`` of each, and ``out`` of the last one, in float32.

    ``weights`` are those that were used: rounded to ``dtype``, but for the last ones. Without
    autograd.
    """

    def __init__(
        self, dtype: torch.dtype, layers: Layers, x: Tensor, more: Tensor | None = None
    ) -> None:
        x = (x if more is None else torch.cat((x, more), 1)).to(dtype)
        self.weights = [*(weight.to(dtype) for weight in layers[:-2:2]), layers[-2]]
        self.inputs = [x.expand(*layers[0].shape[:-2], -1, -1)]
        for weight, bias in zip(self.weights[:-1], layers[1:-2:2], strict=True):
            self.inputs.append(layer(self.inputs[-1], weight, bias.to(dtype)))
        self.out = affine(self.inputs[-1].float(), layers[-2], layers[-1])


class Passed:
    """Outputs ``out`` of one network for (B, width), in float32, and gradients without autograd.

    The last columns may be given apart, as ``more``.
    """

    def __init__(self, layers: Layers, x: Tensor, more: Tensor | None = None) -> None:
        self._layers, self._split = layers, x.shape[1]
        seen = x if more is None else torch.cat((x, more), 1)
        self._seen = [seen]
        for at in range(0, len(layers) - 2, 2):
            seen = layer(seen, layers[at], layers[at + 1])
            self._seen.append(seen)
        self.out = affine(seen, layers[-2], layers[-1])

    def write(self, gradient: Tensor, into: Sequence[Tensor | None]) -> Tensor:
        """Write the gradients of weights and biases, given that of ``out``; None: not of that.

        Returns that of what comes out of the first layer's product.
        """
        layers = self._layers
        for at in reversed(range(0, len(layers), 2)):
            weight, bias = into[at], into[at + 1]
            if bias is not None:
                bias.copy_(gradient.sum(0))
            if weight is not None:
                weight.copy_(product(gradient.t(), self._seen[at // 2]))
            if at:
                before = product(gradient, layers[at])
                gradient = torch.ops.aten.threshold_backward(before, self._seen[at // 2], 0.0)
        return gradient

    def of_more(self, gradient: Tensor) -> Tensor:
        """The gradient of ``more``, given that of ``out``."""
        before = self.write(gradient, [None] * len(self._layers))
        return product(before, self._layers[0][:, self._split :])


def grads(layers: Layers) -> list[Tensor | None]:
    """Where the gradients of weights and biases are; None of those that are frozen."""
    return [each.grad if each.requires_grad else None for each in layers]


class _Pass(torch.autograd.Function):
    """All layers as one step.

    One node costs less than nine, and only gradients that are needed are computed.
    """

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, x: Tensor, more: Tensor | None, *layers: Tensor
    ) -> Tensor:
        seen = [_Seen(dtype, each, x, more) for each in _networks(dtype, layers, len(x))]
        ctx.dtype, ctx.split, ctx.shapes = dtype, x.shape[1], [p.shape for p in layers]
        ctx.save_for_backward(*(tensor for each in seen for tensor in each.inputs + each.weights))
        return _together([each.out for each in seen])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved, depth, wanted = ctx.saved_tensors, len(ctx.shapes) // 2, ctx.needs_input_grad
        networks = [saved[at : at + 2 * depth] for at in range(0, len(saved), 2 * depth)]
        each = [gradient] if len(networks) == 1 else gradient.unbind()
        found = [
            _gradients(of, seen[:depth], seen[depth:], ctx.dtype, ctx.split, wanted[1:])
            for of, seen in zip(each, networks, strict=True)
        ]
        x, more, *layers = zip(*found, strict=True)
        return (
            None, _summed(x), _summed(more),
            *(None if of[0] is None else _together(of).view(shape)
              for of, shape in zip(layers, ctx.shapes, strict=True)),
        )  # fmt: skip


def _gradients(
    gradient: Tensor, seen: Layers, weights: Layers, dtype: torch.dtype, split: int,
    wanted: Sequence[bool],
) -> list[Tensor | None]:  # fmt: skip
    """Of both inputs, the first of which has ``split`` columns, and of all weights and biases."""
    found: list[Tensor | None] = []
    for i in reversed(range(len(weights))):
        needs_weight, needs_bias = wanted[2 + 2 * i : 4 + 2 * i]
        found.append(gradient.sum(-2, dtype=torch.float32) if needs_bias else None)
        inputs = seen[i].to(gradient.dtype)  # float32 for the last layer
        found.append(product(gradient.mT, inputs).float() if needs_weight else None)
        if i:
            before = product(gradient, weights[i]).to(dtype)
            gradient = torch.ops.aten.threshold_backward(before, seen[i], 0.0)
    first, (x, more) = weights[0], wanted[:2]
    found.append(product(gradient, first[..., split:]) if more else None)
    found.append(product(gradient, first[..., :split]) if x else None)
    return found[::-1]


def _summed(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Gradients of (B, in), float32, of several networks: (B, in) of each, or (count, B, in)."""
    given = [each if each.dim() == 2 else each.sum(0) for each in parts if each is not None]
    return sum(given[1:], given[0]).float() if given else None
