"""Matrix products on the CPU by whichever of torch's two libraries is the faster one there.

torch gives float32 products to MKL, which uses AVX-512 on Intel's CPUs only. oneDNN, which torch
carries too, uses it everywhere: 2.1 times as fast on an AMD EPYC (231 against 111 GFLOP/s a core).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

with Path("/proc/cpuinfo").open() as _cpus:
    _FIRST_CPU = _cpus.read(256)  # all of it takes milliseconds where there are hundreds
_ONEDNN_IS_FASTER = (
    torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    and "GenuineIntel" not in _FIRST_CPU
)
"""Whether MKL leaves AVX-512 unused here."""
_ONEDNN_FROM = (1 << 20) + 1
"""Multiplications; with fewer it takes longer to call oneDNN than it saves."""


def worth_a_call(rows: int, weight: Tensor) -> bool:
    """Whether a CPU has so much to do with these rows and this weight (out, in)."""
    return rows * weight.numel() >= _ONEDNN_FROM and weight.device.type == "cpu"


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` of (…, n, k) and (…, k, m), without gradients.

    Libraries take up to five times as long unless the narrow side comes first.
    """
    return _product(a, b) if b.shape[-1] >= a.shape[-2] else _product(b.mT, a.mT).mT


def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The ReLU of what ``affine`` returns."""
    if _by_onednn(x, weight):
        return _onednn(x, weight, bias.flatten(), "relu")
    return affine(x, weight, bias).relu_()


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x @ weight.mT + bias`` of (…, n, in), (…, out, in) and (…, 1, out), without gradients."""
    if _by_onednn(x, weight):
        return _onednn(x, weight, bias.flatten())
    if weight.dim() == 2:
        return torch.addmm(bias, x, weight.t())
    if weight.shape[1] < weight.shape[2] / 4:
        return product(x, weight.mT) + bias
    return torch.baddbmm(bias, x, weight.mT)


class Linear(nn.Linear):
    """An ``nn.Linear`` with a bias that is as fast as the CPU allows."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) to (…, out)."""
        rows = input.flatten(0, -2)
        if not _by_onednn(rows, self.weight):
            return super().forward(input)
        if torch.is_grad_enabled():
            found: Tensor = _Affine.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
        else:
            found = _onednn(rows, self.weight, self.bias)
        return found.view(*input.shape[:-1], -1)


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        again = torch.is_grad_enabled()  # TRPO differentiates gradients again
        multiplied = torch.matmul if again else product
        wanted: Sequence[bool] = ctx.needs_input_grad
        return (
            multiplied(gradient, weight) if wanted[0] else None,
            multiplied(gradient.t(), x) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )


def _product(a: Tensor, b: Tensor) -> Tensor:
    return _onednn(a, b.mT, None) if _by_onednn(a, b.mT) else a @ b


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None, after: str = "none") -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, after, [], "")
    return found


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    """By kind and size alone, so that the same numbers are computed again in a replay.

    Compiled code and autocast have ways of their own.
    """
    return (
        _ONEDNN_IS_FASTER
        and not torch.compiler.is_compiling()  # before sizes: an exported program takes any
        and worth_a_call(x.shape[0], weight)
        and x.dim() == 2
        and weight.dtype == torch.float32 == x.dtype
        and not torch.is_autocast_enabled("cpu")
    )
