"""Evaluates a policy on a device, for rows and weights that are in the host's memory."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from artos.policies.acting import ActInfo, Array
from artos.policies.flat import Floats, layout, named_tensors


class OnDevice:
    """Answers as ``TorchActor`` does; the module's tensors are views of a vector there."""

    def __init__(self, module: nn.Module, device: str) -> None:
        self.module, self._device = module.to(device).eval(), torch.device(device)
        shapes = layout(module)
        self._flat = torch.empty(sum(math.prod(shape) for _, shape in shapes), device=device)
        tensors, at = named_tensors(module), 0
        for name, shape in shapes:
            stop = at + math.prod(shape)
            tensors[name].data = self._flat[at:stop].view(shape)
            at = stop

    @torch.inference_mode()
    def bind(self, flat: Floats) -> None:
        """Answer with these parameters from now on; they are copied."""
        self._flat.copy_(torch.from_numpy(flat))

    @torch.inference_mode()
    def answer(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """What the module's ``answer`` returns, as arrays."""
        there = ActInfo(state=self._placed(dict(info.state)))
        found: Any = self.module.answer(self._placed(obs), there)  # type: ignore[operator]
        return {name: value.cpu().numpy() for name, value in found.items()}

    def _placed(self, arrays: dict[str, Array]) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(array).to(self._device) for name, array in arrays.items()}
