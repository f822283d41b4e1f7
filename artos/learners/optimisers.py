"""Optimisers of one flat vector, whose state can be saved and restored at any time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adam import adam

_NO_PROPORTION = (
    "lr={} cannot be set: ByPart changes the lr of its parts in proportion to that of what is in "
    "none, and that is 0; give it another one and freeze weights by requires_grad_(False)"
)


class Optimiser(Protocol):
    """Steps the vector it was bound to."""

    lr: float

    def bind(self, weights: nn.Parameter) -> None:
        """Optimise this vector, with the gradient in its ``grad``."""

    def step(self) -> None:
        """Take one step."""

    @property
    def steps(self) -> int:
        """Steps taken since training began; the count survives crashes and ``--resume``."""

    def state(self) -> dict[str, Tensor]:
        """Everything that must survive the process, live."""

    def restored(self) -> None:
        """The tensors of ``state`` were filled with those of another process."""


class Adam:
    """Fused Adam (Kingma and Ba 2015), with decoupled weight decay if any (AdamW)."""

    def __init__(
        self,
        lr: float,
        eps: float = 1e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        self.lr, self._eps, self._betas, self._decay = lr, eps, betas, weight_decay

    def bind(self, weights: nn.Parameter) -> None:
        """Begin with moments of 0 for these weights."""
        self._weights = weights
        self._step, self._count = torch.zeros((), device=weights.device), _counter()
        self._exp_avg = torch.zeros_like(weights.data)
        self._exp_avg_sq = torch.zeros_like(weights.data)

    @torch.no_grad()
    def step(self) -> None:
        """One step of Adam, in place."""
        assert self._weights.grad is not None
        self._count += 1
        # The function, not the class: making a torch.optim.Adam imports the compiler (a second).
        adam(
            [self._weights],
            [self._weights.grad],
            [self._exp_avg],
            [self._exp_avg_sq],
            [],
            [self._step],
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=self.lr,
            weight_decay=self._decay,
            decoupled_weight_decay=self._decay > 0,
            eps=self._eps,
            maximize=False,
        )

    @property
    def steps(self) -> int:
        """Steps taken since training began."""
        return int(self._count)

    def state(self) -> dict[str, Tensor]:
        """Both moments, and the number of steps."""
        return {"exp_avg": self._exp_avg, "exp_avg_sq": self._exp_avg_sq, "step": self._count}

    def restored(self) -> None:
        """Have the kernel count from the number of steps in ``state``."""
        self._step.fill_(self._count)


class RMSprop:
    """RMSprop (Hinton 2012, lecture 6e): steps of ``lr * g / (sqrt(average of g²) + eps)``.

    ``alpha`` is the weight of the past in the average, which begins at 0.
    """

    def __init__(self, lr: float, alpha: float = 0.99, eps: float = 1e-5) -> None:
        self.lr, self._alpha, self._eps = lr, alpha, eps

    def bind(self, weights: nn.Parameter) -> None:
        """Begin with an average of 0 for these weights."""
        self._weights = weights
        self._count = _counter()
        self._square_avg = torch.zeros_like(weights.data)

    @torch.no_grad()
    def step(self) -> None:
        """One step of RMSprop, in place."""
        gradient = self._weights.grad
        assert gradient is not None
        self._count += 1
        self._square_avg.mul_(self._alpha).addcmul_(gradient, gradient, value=1 - self._alpha)
        length = self._square_avg.sqrt().add_(self._eps)
        self._weights.addcdiv_(gradient, length, value=-self.lr)

    @property
    def steps(self) -> int:
        """Steps taken since training began."""
        return int(self._count)

    def state(self) -> dict[str, Tensor]:
        """The average of squares, and the number of steps."""
        return {"square_avg": self._square_avg, "step": self._count}

    def restored(self) -> None:
        """Nothing to do: all state is in the tensors."""


class TorchOptimiser:
    """Any optimiser of ``torch.optim``: ``make`` builds it for a list of parameters.

    One that keeps its state per parameter works; one that needs a closure (LBFGS) does not.
    """

    def __init__(self, make: Callable[[list[nn.Parameter]], Optimizer]) -> None:
        self._make = make

    def bind(self, weights: nn.Parameter) -> None:
        """Make the optimiser, and find out what it keeps."""
        self._weights, self._optimizer = weights, self._make([weights])
        self._count = _counter()
        # What the optimiser will keep, torch only makes in the first step: so try one.
        trial = nn.Parameter(weights.detach().clone())
        trial.grad = torch.zeros_like(trial)
        optimizer = self._make([trial])
        optimizer.step()
        kept = optimizer.state[trial].items()
        self._blank = {name: torch.zeros_like(v) for name, v in kept if isinstance(v, Tensor)}

    @property
    def lr(self) -> float:
        """The learning rate of the next steps."""
        return float(self._optimizer.param_groups[0]["lr"])

    @lr.setter
    def lr(self, lr: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = lr

    def step(self) -> None:
        """One step of the optimiser that was made."""
        self._optimizer.step()
        self._count += 1

    @property
    def steps(self) -> int:
        """Steps taken since training began."""
        return int(self._count)

    def state(self) -> dict[str, Tensor]:
        """What the optimiser keeps, zeros before its first step, and the number of steps."""
        kept = self._optimizer.state.get(self._weights, {})
        return {
            **{name: kept.get(name, v) for name, v in self._blank.items()},
            "count": self._count,
        }

    def restored(self) -> None:
        """Have the optimiser go on with the tensors of ``state``."""
        if self.steps:
            self._optimizer.state[self._weights] |= {
                name: value for name, value in self.state().items() if name != "count"
            }


class ByPart:
    """An optimiser of its own for each part of a network, and one for what is in no part.

    A part is named by how the names of its parameters begin: ``ByPart(Adam(1e-3), encoder=
    Adam(1e-4))`` steps ``encoder.0.weight`` with the smaller steps. Gradients are still clipped by
    the length of all of them.
    """

    def __init__(self, otherwise: Optimiser, **parts: Optimiser) -> None:
        self._given: dict[str, Optimiser] = {"": otherwise, **parts}
        self._lr, self._first = otherwise.lr, {name: each.lr for name, each in self._given.items()}

    def divide(self, sizes: Mapping[str, int]) -> None:
        """Say which numbers of the vector are what: parameters' sizes by name, in order.

        Raises:
            ValueError: no parameter's name begins like a part's.
        """
        names = [*sizes]
        found = [self._part(name) for name in names]
        if lacking := sorted(self._given.keys() - {"", *found}):
            beginnings = ", ".join(dict.fromkeys(name.partition(".")[0] for name in names))
            raise ValueError(f"no part is named {lacking[0]!r}: this network has {beginnings}")
        each = zip(found, sizes.values(), strict=True)
        runs = [(part, sum(size for _, size in run)) for part, run in groupby(each, lambda p: p[0])]
        self._runs: Sequence[tuple[str, int]] = runs

    def _part(self, name: str) -> str:
        fitting = [part for part in self._given if part and f"{name}.".startswith(f"{part}.")]
        return max(fitting, key=len, default="")

    def bind(self, weights: nn.Parameter) -> None:
        """Have each part optimised by a copy of its optimiser; parts that are apart by several."""
        assert weights.grad is not None
        self._each: list[tuple[str, Optimiser]] = []
        at = 0
        for part, size in self._runs:
            span = nn.Parameter(weights.data[at : at + size])
            span.grad = weights.grad[at : at + size]
            optimiser = copy.deepcopy(self._given[part])
            optimiser.bind(span)
            self._each.append((part, optimiser))
            at += size

    @property
    def lr(self) -> float:
        """That of what is in no part; setting it changes all others in proportion.

        Raises:
            ValueError: it is 0 from the start, so nothing can be in proportion to it.
        """
        return self._lr

    @lr.setter
    def lr(self, lr: float) -> None:
        whole = self._first[""]
        if lr != whole and not whole:
            raise ValueError(_NO_PROPORTION.format(lr))
        self._lr = lr
        for part, optimiser in self._each:
            # A resumed run sets what it was: exactly that, without a rounding.
            first = self._first[part]
            optimiser.lr = first if lr == whole else lr * first / whole

    def step(self) -> None:
        """One step of each."""
        for _, optimiser in self._each:
            optimiser.step()

    @property
    def steps(self) -> int:
        """Steps taken since training began."""
        return self._each[0][1].steps

    def state(self) -> dict[str, Tensor]:
        """What each keeps, by its place."""
        return {
            f"{place}.{name}": tensor
            for place, (_, optimiser) in enumerate(self._each)
            for name, tensor in optimiser.state().items()
        }

    def restored(self) -> None:
        """The tensors of ``state`` were filled with those of another process."""
        for _, optimiser in self._each:
            optimiser.restored()


def _counter() -> Tensor:
    """Counts steps. Float32 stands still at 2**24; and to ask a GPU is to wait for it."""
    return torch.zeros((), dtype=torch.float64, device="cpu")
