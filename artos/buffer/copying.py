"""Copies between arrays in shared memory and tensors on any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def copy_into(targets: Mapping[str, Any], sources: Mapping[str, Any]) -> None:
    """Fill arrays, or tensors on any device, with arrays or tensors of the same names.

    Copies from and to a GPU are under way side by side; all are over on return.
    """
    streams = {_copy(target, sources[name]) for name, target in targets.items()}
    for stream in streams - {None}:
        stream.synchronize()


def _copy(target: Any, source: Any) -> Any:
    """Copy between an array of a slot and an array or a tensor; the GPU's stream if one is used."""
    if isinstance(target, np.ndarray) and isinstance(source, np.ndarray):
        np.copyto(target, source)
        return None
    import torch  # noqa: PLC0415  # whoever has tensors has imported it; others need not

    into, out = (torch.as_tensor(each).detach() for each in (target, source))
    into.copy_(out, non_blocking=True)
    far = next((each.device for each in (into, out) if each.is_cuda), None)
    return None if far is None else torch.cuda.current_stream(far)
