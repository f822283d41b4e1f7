"""The base of learners that train a torch module: build, step, and what to publish."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from artos.learners.context import LearnerContext
from artos.learners.flat import FlatAdam
from artos.plan import Plan
from artos.policies.flat import Layout, layout
from artos.spec import ObjectKey

_MOST_THREADS = 1024


class TorchLearner:
    """Subclass it and write ``update(batch, call)``; call ``self.step(loss)`` to learn.

    ``batch`` holds the rows the trigger claimed, and is None where the trigger claims none (a
    ``TimeTrigger``): such a learner draws from ``context.blocks`` with a sampler.
    ``update`` returns metrics (floats). Every call in which ``step`` ran publishes a new version of
    the weights together with the optimiser's state, so a learner that is killed goes on from there.

    Methods named in ``silent`` only help an update along, with rows that have come already: they
    publish nothing and count as no update, even if they step. What they did is lost with the
    process, so an update that follows must claim the same rows, and make up for what it misses.

    What else a learner wants to publish, e.g. statistics, it declares in ``objects`` and publishes
    with ``self.publish(name, value)``, in any of its methods. Each version fires
    ``ObjectKeyTrigger(name)``; scaling policies read the newest value.
    """

    silent: ClassVar[tuple[str, ...]] = ()
    objects: ClassVar[tuple[ObjectKey, ...]] = ()

    def __init__(
        self, lr: float = 2.5e-4, max_grad_norm: float | None = 0.5, threads: int = 0
    ) -> None:
        self.lr, self.max_grad_norm, self._threads = lr, max_grad_norm, threads
        self.fresh = False

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network and give it its optimiser."""
        self.context, self.module = context, context.module
        self.adam = FlatAdam(self.module, self.lr)

    def threads(self, module: nn.Module, cores: int) -> int:
        """Compute threads: as set, else one for small networks and all cores for large ones."""
        size = sum(p.numel() for p in module.parameters())
        return self._threads or (cores if size > 200_000 else 1)

    def faults(self, plan: Plan) -> list[str]:
        """Everything wrong with this learner's settings for this plan."""
        found = []
        if not 0 < self.lr < math.inf:
            found.append(f"lr must be positive, not {self.lr}")
        if not 0 <= self._threads <= _MOST_THREADS:
            found.append(f"threads must be within 0 and {_MOST_THREADS}, not {self._threads}")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            found.append(f"max_grad_norm must be positive or none, not {self.max_grad_norm}")
        return found

    def step(self, loss: Tensor) -> None:
        """One optimiser step on ``loss`` (scalar) alone."""
        self.adam.step(loss, self.max_grad_norm)
        self.fresh = True

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of ``loss`` (scalar) to that of the next ``apply``."""
        self.adam.backward(loss)

    def apply(self) -> None:
        """One optimiser step on what ``backward`` added up since the last step."""
        self.adam.apply(self.max_grad_norm)
        self.fresh = True

    def publish(self, name: str, value: ArrayLike) -> None:
        """Make ``value`` the newest version of an object that is among ``objects``.

        Raises:
            BadObject: it is not declared, or has another shape.
            NotFinite: it holds NaN or infinity.
        """
        self.context.publish(name, value)

    def published(self, name: str) -> NDArray[Any] | None:
        """A copy of what was published last, also before a crash or ``--resume``; None if none."""
        return self.context.publish.newest(name)

    def live(self) -> Mapping[str, NDArray[Any]]:
        """Live arrays that make up a version: copied out to publish, copied in to resume."""
        return self.adam.live()

    def layout(self) -> Layout:
        """Names and shapes inside ``params``."""
        return layout(self.module)

    def seconds(self) -> Mapping[str, float]:
        """Where the last update spent its time, if it kept count."""
        return {}

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """A tensor over the same memory."""
        return torch.from_numpy(array)
