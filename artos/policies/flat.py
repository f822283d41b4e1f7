"""Parameters as one flat float32 vector: the form in which weights are published and bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

Layout = tuple[tuple[str, tuple[int, ...]], ...]
Floats = NDArray[np.float32]


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters in ``named_parameters()`` order, then floating-point buffers."""
    found: dict[str, Tensor] = dict(module.named_parameters())
    return found | float_buffers(module)


def float_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Floating-point buffers, which versions hold, too: in the vector they are float32."""
    return {name: b for name, b in module.named_buffers() if b.is_floating_point()}


def layout(module: nn.Module) -> Layout:
    """Name and shape of everything in the flat vector, in order."""
    return tuple((name, tuple(t.shape)) for name, t in named_tensors(module).items())


def views(flat: Floats, of: Layout) -> dict[str, Floats]:
    """Each entry as a view into ``flat`` (float32, contiguous).

    Raises:
        ValueError: the layout is not that of a vector of this length.
    """
    found, at = {}, 0
    for name, shape in of:
        stop = at + math.prod(shape)
        found[name] = flat[at:stop].reshape(shape)
        at = stop
    if at != len(flat):
        raise ValueError(f"the layout needs {at} floats, the vector has {len(flat)}")
    return found
