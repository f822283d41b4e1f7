"""Batch renormalisation (Ioffe 2017), in several networks of one shape at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from artos.policies.relu_mlp import ReluMlps

_EPS = 1e-3
_NEW = 0.01
_MOST_RATIO, _MOST_SHIFT = 3.0, 5.0


class BatchRenorm(nn.Module):
    """Normalises each column of ``count`` networks, then scales and shifts it by parameters.

    What is learned from is normalised by its own mean and deviation, corrected towards running ones
    by a factor within 1/3 ... 3 and a shift within -5 ... 5 that have no gradients. The first
    ``after`` batches are not corrected: that is batch normalisation. All else is normalised by the
    running ones, to which a batch adds 1 %. These are buffers, and kept with the parameters.
    """

    mean: Tensor
    var: Tensor
    batches: Tensor

    def __init__(self, count: int, width: int, after: int) -> None:
        super().__init__()
        self.after = after
        self.of_all: Callable[[Tensor], Tensor] | None = None
        self.scale = nn.Parameter(torch.ones(count, 1, width))
        self.shift = nn.Parameter(torch.zeros(count, 1, width))
        self.register_buffer("mean", torch.zeros(count, 1, width))
        self.register_buffer("var", torch.ones(count, 1, width))
        self.register_buffer("batches", torch.zeros(1))

    def forward(self, x: Tensor, learning: bool) -> Tensor:
        """(count, B, width) to the same; if it is ``learning``, running statistics move."""
        if not learning:
            return (x - self.mean) * (self.scale * torch.rsqrt(self.var + _EPS)) + self.shift
        mean = x.mean(1, keepdim=True)
        if self.of_all is None:
            var = x.var(1, correction=0, keepdim=True)
        else:
            mean = self.of_all(mean)
            var = self.of_all((x - mean).square().mean(1, keepdim=True))
        with torch.no_grad():
            corrected = self.batches >= self.after
            running = torch.sqrt(self.var + _EPS)
            ratio = (torch.sqrt(var + _EPS) / running).clamp(1 / _MOST_RATIO, _MOST_RATIO)
            shift = ((mean - self.mean) / running).clamp(-_MOST_SHIFT, _MOST_SHIFT)
            ratio, shift = torch.where(corrected, ratio, 1), torch.where(corrected, shift, 0)
            self.mean.lerp_(mean, _NEW)
            self.var.lerp_(var, _NEW)
            self.batches += 1
        normal = (x - mean) * (ratio * torch.rsqrt(var + _EPS)) + shift
        return normal * self.scale + self.shift


class RenormMlps(ReluMlps):
    """``ReluMlps`` whose inputs and hidden layers, after ReLU, are normalised."""

    def __init__(
        self, count: int, width: int, hidden: Sequence[int], out: int, *, after: int
    ) -> None:
        super().__init__(count, width, hidden, out)
        self.norms = nn.ModuleList(BatchRenorm(count, side, after) for side in (width, *hidden))

    def share(self, of_all: Callable[[Tensor], Tensor]) -> None:
        """Normalise by a batch that several processes share; ``of_all`` makes means those of it."""
        for norm in self.norms:
            norm.of_all = of_all  # type: ignore[assignment]

    def forward(self, x: Tensor, more: Tensor | None = None, *, learning: bool = False) -> Tensor:
        """(B, width) to (count, B, out); the last columns may be given apart, as ``more``."""
        x = x if more is None else torch.cat((x, more), 1)
        seen = x.expand(len(self.biases[0]), -1, -1)
        for depth, norm in enumerate(self.norms):
            seen = norm(seen if depth == 0 else seen.relu(), learning)
            last = depth == len(self.norms) - 1  # under autocast the others are rounded
            with torch.autocast(x.device.type, enabled=False) if last else nullcontext():
                seen = torch.baddbmm(self.biases[depth], seen, self.weights[depth].mT).float()
        return seen


class RenormMlp(RenormMlps):
    """One such network."""

    def __init__(self, width: int, hidden: Sequence[int], out: int, *, after: int) -> None:
        super().__init__(1, width, hidden, out, after=after)

    def forward(self, x: Tensor, more: Tensor | None = None, *, learning: bool = False) -> Tensor:
        """(B, width) to (B, out)."""
        return super().forward(x, more, learning=learning).squeeze(0)
