"""A network that a learner owns: its module in one flat vector, and its optimiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from artos.learners.optimisers import ByPart, Optimiser
from artos.learners.replicas import ALONE, Replicas
from artos.policies.flat import float_buffers


class Value(nn.Module):
    """A single tensor as a module, which returns it when it is called."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = nn.Parameter(value.detach().clone().float())

    def forward(self) -> Tensor:
        """The tensor."""
        return self.value


class Network:
    """Moves a module's parameters and gradients into flat vectors: one kernel steps or copies them.

    Call it as you would call the module. Without an optimiser it is not trained: no gradients are
    kept, and it changes by ``follow`` only.

    ``values`` (N,) float32 holds the parameters and, behind them, floating-point buffers.
    ``observe``, if set, is called with every gradient before clipping; the tensor is reused.
    ``stepped`` is called after every step. ``max_grad_norm`` bounds the length of gradients.
    ``place`` is the device it moves to, if it is not to stay where it is.
    ``first_lr`` is the step size that its optimiser was made with, if it has one.
    ``alone``: losses depend on no other network that is trained, which saves a look (15 µs).
    ``replicas`` are the networks of other processes that step with the sum of all gradients.
    """

    def __init__(
        self,
        module: nn.Module,
        optimiser: Optimiser | None = None,
        max_grad_norm: float | None = None,
        stepped: Callable[[], None] = lambda: None,
        place: torch.device | None = None,
        replicas: Replicas = ALONE,
    ) -> None:
        self._replicas = replicas
        if place is not None:
            module.to(place)
        self.module, self.max_grad_norm, self._stepped = module, max_grad_norm, stepped
        self.observe: Callable[[Tensor], None] | None = None
        self.alone = False
        self._parameters = parameters = list(module.parameters())
        tensors = [p.detach() for p in parameters] + [*float_buffers(module).values()]
        self.values = torch.cat([t.reshape(-1).float() for t in tensors])
        self.count = sum(p.numel() for p in parameters)
        self.weights = nn.Parameter(self.values[: self.count])
        at = 0
        for parameter in parameters:
            # Contiguous views: layouts such as channels_last are chosen by the forward pass.
            parameter.data = self.values[at : at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()
        for name, buffer in float_buffers(module).items():
            view = self.values[at : at + buffer.numel()].view(buffer.shape)
            owner, _, leaf = name.rpartition(".")
            module.get_submodule(owner)._buffers[leaf] = view
            at += buffer.numel()
        self._adding = False
        self._optimiser = optimiser
        if optimiser is None:
            module.requires_grad_(False)
            return
        self.weights.grad = self._gradient = torch.zeros_like(self.weights.data)
        at = 0
        for parameter in parameters:
            span = self._gradient[at : at + parameter.numel()]
            parameter.grad = span.view(parameter.shape)
            at += parameter.numel()
        if isinstance(optimiser, ByPart):
            optimiser.divide({name: p.numel() for name, p in module.named_parameters()})
        optimiser.bind(self.weights)
        self.first_lr = optimiser.lr

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*args, **kwargs)

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """What is computed with it meanwhile has gradients of its arguments only."""
        learned = self.learned
        for parameter in learned:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in learned:
                parameter.requires_grad_()

    @property
    def learned(self) -> list[nn.Parameter]:
        """Its parameters but for those that are frozen by ``requires_grad_(False)``."""
        return [each for each in self._parameters if each.requires_grad]

    # -- training ------------------------------------------------------------------------------

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser, e.g. to set its ``lr``.

        Raises:
            TypeError: the network is not trained.
        """
        if self._optimiser is None:
            raise TypeError("this network has no optimiser: give own() an lr or an optimiser")
        return self._optimiser

    @property
    def gradient(self) -> Tensor:
        """What it stepped with last, (N,), or what was added up since; reused by the next one."""
        return self._gradient

    @property
    def trained(self) -> bool:
        """Whether it has an optimiser."""
        return self._optimiser is not None

    @property
    def steps(self) -> int:
        """Steps taken since training began; the count survives crashes and ``--resume``."""
        return self.optimiser.steps

    def step(self, loss: Tensor) -> None:
        """Step with the gradient of ``loss`` (scalar) alone."""
        self.discard()
        self.backward(loss)
        self.apply()

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of ``loss`` to those added since the last step.

        Other networks that the loss depends on are not touched.
        """
        if not self._adding:
            self._gradient.zero_()
            self._adding = True
        if (share := self._replicas.share) != 1.0:
            loss = loss * share
        loss.backward(inputs=None if self.alone else self.learned)  # type: ignore[no-untyped-call]

    def discard(self) -> None:
        """Forget the gradients that were added since the last step."""
        self._adding = False

    def step_written(self) -> None:
        """Step with what was written into ``grad`` of the parameters, found without autograd."""
        self._adding = True
        self.apply()

    def apply(self) -> None:
        """Clip the sum of the added gradients by its global norm, and step with it.

        Raises:
            RuntimeError: nothing was added since the last step.
            TypeError: the network is not trained.
        """
        optimiser = self.optimiser
        if not self._adding:
            raise RuntimeError("there is no gradient to step with: call backward(loss) first")
        self._adding, gradient = False, self._gradient
        self._replicas.sum(gradient)
        if self.observe is not None:
            self.observe(gradient)
        if self.max_grad_norm is not None:
            norm = torch.linalg.vector_norm(gradient)
            gradient.mul_((self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        # Without a gradient they would still shrink, or move on by momentum.
        frozen = [
            (each, each.detach().clone()) for each in self._parameters if not each.requires_grad
        ]
        optimiser.step()
        for parameter, kept in frozen:
            parameter.detach().copy_(kept)
        increment_version(self._parameters)  # a loss that was made before is refused from now on
        self._stepped()

    @torch.no_grad()
    def follow(self, other: Network, tau: float = 1.0) -> None:
        """Move a share of the way to the other network: ``tau * other + (1 - tau) * this``.

        The usual update of target networks; 1 copies.

        Raises:
            ValueError: the networks differ in size.
        """
        if len(self.values) != len(other.values):
            sizes = f"{len(self.values)} and {len(other.values)}"
            raise ValueError(
                f"a network can only follow one like itself: they have {sizes} numbers"
            )
        if tau == 1:
            self.values.copy_(other.values)
        else:
            self.values.lerp_(other.values, tau)
        increment_version(self._parameters)

    def held(self) -> Iterator[tuple[Tensor, bool]]:
        """Every tensor that it keeps, and whether its content matters between two calls."""
        yield self.values, True
        if self._optimiser is not None:
            yield self._gradient, self._adding
            yield from ((tensor, True) for tensor in self._optimiser.state().values())
        yield from ((buffer, True) for buffer in self.module.buffers())

    # -- what survives the process -------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Live tensors of the network, ``params``, and of its optimiser."""
        kept = {} if self._optimiser is None else self._optimiser.state()
        return {"params": self.values, **kept}

    def added(self) -> Tensor | None:
        """A copy of the gradient that was added up since the last step, (N,); None if none was."""
        return self._gradient.clone() if self._adding else None

    def add(self, gradient: Tensor | None) -> None:
        """Go on with a gradient that another one ``added``."""
        self._adding = gradient is not None
        if gradient is not None:
            self._gradient.copy_(gradient)

    def restored(self) -> None:
        """The tensors of ``state`` were filled with those of another process."""
        if self._optimiser is not None:
            self._optimiser.restored()
