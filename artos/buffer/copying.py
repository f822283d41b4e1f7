"""Copies between arrays in shared memory and tensors on any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def copy_into(targets: Mapping[str, Any], sources: Mapping[str, Any]) -> None:
    """Fill arrays, or tensors on any device, with arrays or tensors of the same names.

    Copies from and to a GPU are under way side by side; all are over on return.
    """
    streams = set()
    for name, target in targets.items():
        source = sources[name]
        if isinstance(target, np.ndarray) and isinstance(source, np.ndarray):
            np.copyto(target, source)
            continue
        import torch  # noqa: PLC0415  # a process with tensors has imported it; others need not

        into, out = (torch.as_tensor(each).detach() for each in (target, source))
        into.copy_(out, non_blocking=True)
        for far in (each.device for each in (into, out) if each.is_cuda):
            streams.add(torch.cuda.current_stream(far))
            break
    for stream in streams:
        stream.synchronize()
