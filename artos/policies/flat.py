"""Parameters as one flat float32 vector: the form in which weights are published and bound."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Layout = tuple[tuple[str, tuple[int, ...]], ...]
Floats = NDArray[np.float32]


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters in ``named_parameters()`` order, then floating-point buffers."""
    found: dict[str, Tensor] = dict(module.named_parameters())
    found.update({k: b for k, b in module.named_buffers() if b.is_floating_point()})
    return found


def layout(module: nn.Module) -> Layout:
    """Name and shape of everything in the flat vector, in order."""
    return tuple((name, tuple(t.shape)) for name, t in named_tensors(module).items())


def size(of: Layout) -> int:
    """Length of the flat vector."""
    return sum(math.prod(shape) for _, shape in of)


def views(flat: Floats, of: Layout) -> dict[str, Floats]:
    """Each entry as a view into ``flat`` (float32, contiguous)."""
    found, at = {}, 0
    for name, shape in of:
        stop = at + math.prod(shape)
        found[name] = flat[at:stop].reshape(shape)
        at = stop
    if at != len(flat):
        raise ValueError(f"the layout needs {at} floats, the vector has {len(flat)}")
    return found


def store(module: nn.Module, flat: Floats) -> None:
    """Copy a module's tensors into ``flat``."""
    target = views(flat, layout(module))
    for name, tensor in named_tensors(module).items():
        target[name][...] = tensor.detach().cpu().float().numpy()


def load(module: nn.Module, flat: Floats) -> None:
    """Copy ``flat`` into a module's tensors."""
    source = views(flat, layout(module))
    with torch.no_grad():
        for name, tensor in named_tensors(module).items():
            tensor.copy_(torch.from_numpy(source[name].copy()))
