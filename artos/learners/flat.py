"""A module and its Adam optimiser over one flat vector: one kernel to step, one copy to publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adam import adam


def _float_buffers(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [(n, b) for n, b in module.named_buffers() if b.dtype == torch.float32]


class FlatAdam:
    """Moves a module's parameters and gradients into flat vectors and steps them with fused Adam.

    ``live()`` are NumPy views of everything that must survive the process: weights and moments.
    ``observe``, if set, is called with every gradient before clipping; the tensor is reused.
    """

    def __init__(self, module: nn.Module, lr: float, eps: float = 1e-5) -> None:
        self.observe: Callable[[Tensor], None] | None = None
        parameters = list(module.parameters())
        tensors = [p.detach() for p in parameters] + [b for _, b in _float_buffers(module)]
        self.values = torch.cat([t.reshape(-1).float() for t in tensors])
        self.count = sum(p.numel() for p in parameters)
        self.weights = nn.Parameter(self.values[: self.count])
        self.weights.grad = self._gradient = torch.zeros(self.count)
        self._adding = False
        self._point(parameters, module)
        self.lr, self._eps = lr, eps
        self._step = torch.zeros(())
        self._exp_avg, self._exp_avg_sq = torch.zeros(self.count), torch.zeros(self.count)

    def _point(self, parameters: list[nn.Parameter], module: nn.Module) -> None:
        at = 0
        for parameter in parameters:
            span = slice(at, at + parameter.numel())
            # Contiguous views: layouts such as channels_last are chosen by the forward pass.
            parameter.data = self.values[span].view(parameter.shape)
            parameter.grad = self._gradient[span].view(parameter.shape)
            at = span.stop
        for name, buffer in _float_buffers(module):
            view = self.values[at : at + buffer.numel()].view(buffer.shape)
            owner, _, leaf = name.rpartition(".")
            module.get_submodule(owner)._buffers[leaf] = view
            at += buffer.numel()

    def set_lr(self, lr: float) -> None:
        """Change the learning rate of the next steps."""
        self.lr = lr

    @property
    def steps(self) -> int:
        """Steps taken since training began; the count survives crashes and ``--resume``."""
        return int(self._step)

    def step(self, loss: Tensor, max_grad_norm: float | None = None) -> None:
        """Step with the gradient of ``loss`` alone."""
        self.discard()
        self.backward(loss)
        self.apply(max_grad_norm)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of ``loss`` to those added since the last step."""
        if not self._adding:
            self._gradient.zero_()
            self._adding = True
        loss.backward()  # type: ignore[no-untyped-call]

    def discard(self) -> None:
        """Forget the gradients that were added since the last step."""
        self._adding = False

    def apply(self, max_grad_norm: float | None = None) -> None:
        """Clip the sum of the added gradients by its global norm, and step with it.

        Raises:
            RuntimeError: nothing was added since the last step.
        """
        if not self._adding:
            raise RuntimeError("there is no gradient to step with: call backward(loss) first")
        self._adding, gradient = False, self._gradient
        if self.observe is not None:
            self.observe(gradient)
        if max_grad_norm is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient.mul_((max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self._update(gradient)

    @torch.no_grad()
    def _update(self, gradient: Tensor) -> None:
        # The function, not the class: making a torch.optim.Adam imports the compiler (a second).
        adam(
            [self.weights], [gradient], [self._exp_avg], [self._exp_avg_sq], [], [self._step],
            fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=self.lr, weight_decay=0.0,
            eps=self._eps, maximize=False,
        )  # fmt: skip

    def live(self) -> dict[str, NDArray[Any]]:
        """Views of the weights (``params``) and of the optimiser's state (``learner.*``)."""
        return {
            "params": self.values.numpy(),
            "learner.exp_avg": self._exp_avg.numpy(),
            "learner.exp_avg_sq": self._exp_avg_sq.numpy(),
            "learner.step": self._step.numpy(),
        }
